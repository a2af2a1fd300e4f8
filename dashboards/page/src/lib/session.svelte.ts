/** session is who looks: what the page may offer, and how its stream stands. */
export const session = $state({ operator: false, login: false, connection: '' });
