/** Developer mode: a client without a token is the configured developer, `#token=dev:NAME` makes it somebody else. */

import { adoptToken, isTokenInAddress } from "../location.js";

export class DeveloperSignIn {
  user = null;
  renewable = false;
  #token = adoptToken();

  get owner() {
    return /^dev:[^:]+/.exec(this.#token)?.[0] ?? "developer";
  }

  async tokens({ renew = false } = {}) {
    return renew || !this.#token ? null : { access_token: this.#token };
  }

  /** Whether the address names somebody, who is signed in when the page is loaded anew. */
  isSucceeded() {
    return isTokenInAddress();
  }
}
