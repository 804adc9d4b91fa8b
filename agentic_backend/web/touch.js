/** Whether the page is used by touch alone: there Enter begins a line, and the focus opens a keyboard. */
export const isTouched = () => matchMedia("(hover: none) and (pointer: coarse)").matches;
