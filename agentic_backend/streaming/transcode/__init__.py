"""From a graph's stream to drafts of messages. No I/O."""
