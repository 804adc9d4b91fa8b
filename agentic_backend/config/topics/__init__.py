"""The settings of one topic each; `settings` joins them."""
