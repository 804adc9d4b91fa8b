/**
 * Whether a key belongs to an input method that is composing: it ends the composition, say, and does nothing else. Safari
 * tells that of the Enter that ends one by the code 229 alone.
 */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;
