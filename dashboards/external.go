package dashboards

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// external is the address of a server behind a proxy. The zero value is a server without a
// proxy.
type external struct {
	origin string // scheme and host; empty if there is no proxy
	host   string // without the port
	base   string // the path of the proxy, without a slash at its end
}

// basePath matches the allowed paths of an external URL, which are written into pages.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// parseExternal parses Options.ExternalURL.
func parseExternal(text string) (external, error) {
	if text == "" {
		return external{}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return external{}, errors.New("external URL: want https://host or https://host/path, as in a browser")
	}
	x := external{origin: u.Scheme + "://" + u.Host, host: u.Hostname(), base: strings.TrimRight(u.Path, "/")}
	if !basePath.MatchString(x.base) {
		return external{}, errors.New("external URL: the path may only hold letters, digits and -._~")
	}
	return x, nil
}

func (x external) secure() bool { return strings.HasPrefix(x.origin, "https:") }

// path returns the path under which browsers reach a path of this server.
func (x external) path(local string) string { return x.base + local }

// strip removes the proxy's path from requests, if the proxy has not.
func (x external) strip(next http.Handler) http.Handler {
	if x.base == "" {
		return next
	}
	stripped := http.StripPrefix(x.base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == x.base:
			http.Redirect(w, r, x.path("/"), http.StatusSeeOther)
		case strings.HasPrefix(r.URL.Path, x.base+"/"):
			stripped.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// inPage adds the proxy's path to the addresses in a page.
func (x external) inPage(html string) string {
	return strings.NewReplacer(
		`<meta name="base" content="">`, `<meta name="base" content="`+x.base+`">`,
		`href="/`, `href="`+x.base+`/`,
		`src="/`, `src="`+x.base+`/`,
	).Replace(html)
}
