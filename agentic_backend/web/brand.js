/** What the document says of itself, by the server's settings: the product's name, its logo, how to sign in. */

const meta = (name) => document.querySelector(`meta[name="${name}"]`).content;

/** `name` is a text, `logo` the URL of an image. */
export const brand = {
  name: meta("application-name"),
  logo: document.querySelector("link[rel=icon]").href,
};

/** `{mode, realm_url?, client_id?}`, as in `GET /agentic/v1/sign-in`. */
export const signInMode = JSON.parse(meta("sign-in"));
