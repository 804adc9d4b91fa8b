"""What reads each kind of file, within the process that is made for one file."""
