"""Worker processes: code of applications that needs a processor for long, in processes of its own."""
