package dashboards

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// nginxOfDocs is the configuration that docs/operations.md gives, with the addresses and files
// of this test.
func nginxOfDocs(t *testing.T, addr, upstream string, pair testserver.Pair) string {
	t.Helper()
	text := must.Get(os.ReadFile("../docs/operations.md"))(t)
	block := regexp.MustCompile("(?s)```nginx\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/operations.md gives no configuration of nginx")
	}
	config := string(block[1])
	for of, instead := range map[string]string{
		"listen 443 ssl": "listen " + addr + " ssl", "/etc/nginx/tls/host.pem": pair.Certificate, "/etc/nginx/tls/host.key": pair.Key, "127.0.0.1:8080": upstream,
	} {
		if !strings.Contains(config, of) {
			t.Fatalf("the configuration in docs/operations.md lacks %q", of)
		}
		config = strings.ReplaceAll(config, of, instead)
	}
	return config
}

// behindNginx starts a server below /coalmine of a real nginx that speaks TLS.
func behindNginx(t *testing.T, api *fakeAPI, change func(config string) string) (address string, authority *testserver.Authority) {
	t.Helper()
	authority = testserver.NewAuthority(t)
	pair := authority.Issue("nginx")
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	nginx := testserver.StartNginx(t, func(addr string) string { return change(nginxOfDocs(t, addr, l.Addr().String(), pair)) })
	_, port, _ := net.SplitHostPort(nginx.Addr())
	address = "https://localhost:" + port + "/coalmine"
	s := newTestServer(t, api, Options{OperatorToken: operatorToken, ExternalURL: address + "/"})
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return address, authority
}

// browser keeps cookies, and follows redirects.
func browser(t *testing.T, authority *testserver.Authority) *http.Client {
	t.Helper()
	pem := must.Get(os.ReadFile(authority.File))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	jar := must.Get(cookiejar.New(nil))(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

func TestNginxShowsTheServerBelowAPath(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"path taken off": func(config string) string { return config },
		"path kept":      func(config string) string { return strings.Replace(config, "/;", ";", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newFake()
			address, authority := behindNginx(t, api, change)
			useAsBrowser(t, address, browser(t, authority))
			watchThrough(t, api, address+"?ca="+authority.File)
		})
	}
}

// useAsBrowser logs in and loads the page with all that it names.
func useAsBrowser(t *testing.T, address string, b *http.Client) {
	t.Helper()
	get := func(target string) (*http.Response, string) {
		t.Helper()
		response := must.Get(b.Get(target))(t)
		defer response.Body.Close()
		body := must.Get(io.ReadAll(response.Body))(t)
		return response, string(body)
	}
	form, _ := get(address + "/runs/a-1?tasks=1")
	if got := form.Request.URL.String(); got != address+"/login?next="+url.QueryEscape("/runs/a-1?tasks=1") {
		t.Fatalf("before the login it leads to %s", got)
	}
	request := must.Get(http.NewRequest(http.MethodPost, form.Request.URL.String(), strings.NewReader(url.Values{"token": {operatorToken}}.Encode())))(t)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", strings.TrimSuffix(address, "/coalmine"))
	cookies := b.CheckRedirect
	var set string
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		set = r.Response.Header.Get("Set-Cookie")
		return nil
	}
	page, err := b.Do(request)
	b.CheckRedirect = cookies
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	html, err := io.ReadAll(page.Body)
	if err != nil || page.Request.URL.String() != address+"/runs/a-1?tasks=1" {
		t.Fatalf("after the login it leads to %s (%v)", page.Request.URL, err)
	}
	for _, attribute := range []string{"Path=/coalmine/;", "Secure", "SameSite=Strict", "HttpOnly"} {
		if !strings.Contains(set, attribute) {
			t.Errorf("cookie %q lacks %s", set, attribute)
		}
	}
	if !strings.Contains(string(html), `<meta name="base" content="/coalmine">`) {
		t.Errorf("the page does not know its path:\n%s", html)
	}
	parts := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(string(html), -1)
	for _, part := range append(parts, []string{"", "/coalmine/api/v1/session"}) {
		if answer, body := get(strings.TrimSuffix(address, "/coalmine") + part[1]); answer.StatusCode != http.StatusOK || strings.Contains(body, "<title>") {
			t.Errorf("%s: %s", part[1], answer.Status)
		}
	}
	if len(parts) < 4 {
		t.Errorf("the page has %d parts", len(parts))
	}
	if home, _ := get(address); home.Request.URL.Path != "/coalmine/" || home.StatusCode != http.StatusOK {
		t.Errorf("without a slash it leads to %s: %s", home.Request.URL, home.Status)
	}
	if out, err := b.Post(address+"/logout", "", nil); err != nil || out.Request.URL.Path != "/coalmine/login" {
		t.Errorf("after the logout: %v, %v", out, err)
	}
}

// watchThrough follows a run by a stream that nginx passes on, event by event.
func watchThrough(t *testing.T, api *fakeAPI, address string) {
	t.Helper()
	c := client(t, address, operatorToken)
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	ends(t, statuses)
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestExternalURLsAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]external{
		"https://host.example":              {"https://host.example", "host.example", ""},
		"https://host.example/":             {"https://host.example", "host.example", ""},
		"http://host.example:81/a/coalmine": {"http://host.example:81", "host.example", "/a/coalmine"},
	} {
		if got, err := parseExternal(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"host.example", "/coalmine", "ftp://host", "https://me:s3cret@host", "https://host/?a=b", "https://host/#a", `https://host/"><script>`, "https://host/a b", "https:///x"} {
		if got, err := parseExternal(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if _, err := NewServer(newFake(), Options{ExternalURL: "https://host/"}); err == nil || !strings.Contains(err.Error(), "operator token") {
		t.Errorf("without a token: %v", err)
	}
}
