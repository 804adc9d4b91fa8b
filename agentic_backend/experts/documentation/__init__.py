"""The documentation expert: searches a folder of Markdown, by default the documents that ship with the product."""
