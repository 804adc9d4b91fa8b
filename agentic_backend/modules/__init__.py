"""Modules that ship with the product. They use only `policy`'s chat_module, hook_context and hook_result."""
