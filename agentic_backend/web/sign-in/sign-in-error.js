/** Why nobody could sign in, in words for the reader of the page. */
export class SignInError extends Error {}
