/** session has the user's role and the state of the stream. */
export const session = $state({ operator: false, login: false, connection: '' });
