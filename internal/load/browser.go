package load

import (
	"compress/gzip"
	"context"
	cryptorand "crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

// tabsEach is the number of tabs of one user. The portal serves eight requests of a user at a time and queues 64 more.
const tabsEach = 10

// browser is a signed-in user's HTTP client.
type browser struct {
	run    *loadRun
	portal string
	via    *http.Client
}

// signIn creates a user with the viewer role and signs in.
func (r *loadRun) signIn(ctx context.Context, n int) (*browser, error) {
	user, password, err := r.api.CreateUser(ctx, client.NewUser{Name: fmt.Sprintf("%s-u%03d", r.name, n+1), Role: fleet.RoleViewer})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.created.users = append(r.created.users, user.ID)
	r.mu.Unlock()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	b := &browser{run: r, portal: strings.TrimSuffix(r.o.Portal, "/"), via: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.o.Roots}, MaxIdleConnsPerHost: 4 * tabsEach, DisableCompression: true, WriteBufferSize: 1 << 10},
	}}
	own := cryptorand.Text()
	if err := b.post(ctx, "/sign-in", url.Values{"name": {user.Name}, "password": {password}}); err != nil {
		return nil, err
	}
	return b, b.post(ctx, "/account/password", url.Values{"old": {password}, "new": {own}, "again": {own}})
}

// post sends a form and expects a redirect. It retries while the portal answers "busy".
func (b *browser) post(ctx context.Context, path string, form url.Values) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		later, err := b.postOnce(ctx, path, form)
		if later == 0 || !pause(ctx, later) {
			return err
		}
	}
}

// postOnce sends a form. If the portal is busy, later is the delay in the Retry-After header.
func (b *browser) postOnce(ctx context.Context, path string, form url.Values) (later time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.portal+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := b.via.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0, err
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		later = time.Duration(seconds) * time.Second
	}
	if res.StatusCode != http.StatusSeeOther {
		return later, fmt.Errorf("%s returned status %d instead of a redirect", path, res.StatusCode)
	}
	return 0, nil
}

// get requests a page, or only one of its live parts, and copies the compressed body to the writer. It returns the time
// until the end of the body.
func (b *browser) get(ctx context.Context, path, part string, to io.Writer) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.portal+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	if part != "" {
		req.Header.Set("Hx-Request", "true")
		req.Header.Set("Hx-Target", part)
		req.Header.Set("Hx-Trigger", part)
	}
	began := time.Now()
	res, err := b.via.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s returned status %d", path, res.StatusCode)
	}
	_, err = io.Copy(to, res.Body)
	return time.Since(began), err
}

// getPageText returns the decompressed text of a page.
func (b *browser) getPageText(ctx context.Context, path string) (string, error) {
	var packed strings.Builder
	if _, err := b.get(ctx, path, "", &packed); err != nil {
		return "", err
	}
	z, err := gzip.NewReader(strings.NewReader(packed.String()))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

// pageKind is a kind of page; path returns the address of one such page.
type pageKind struct {
	kind string
	path func() string
}

// pageKinds returns the kinds of pages that simulated users open one after another.
func (r *loadRun) pageKinds(pools []fleet.PoolID) []pageKind {
	fixed := func(path string) func() string { return func() string { return path } }
	of := func(n fleet.ResourceType, id string) string { return n.Info().PagePath(id) }
	all := []pageKind{
		{"VM list", fixed("/vms")},
		{"VM list, filtered", fixed("/vms?filter=state%3Arunning&sort=-name")},
		{"Dashboard", fixed("/")},
		{"Host list", fixed("/hosts")},
		{"Host page", func() string { return of(fleet.TypeHost, string(r.anyAgent().id)) }},
		{"Tasks", fixed("/tasks")},
	}
	if r.runningVMs() > 0 {
		all = append(all, pageKind{"VM page", func() string { return of(fleet.TypeVM, string(r.anyVM())) }})
	}
	if len(pools) > 0 {
		all = append(all, pageKind{"Pool page", func() string { return of(fleet.TypePool, string(pools[rand.IntN(len(pools))])) }})
	}
	return all
}

func (r *loadRun) anyAgent() *agent { return r.agents[rand.IntN(len(r.agents))] }

// anyVM returns a random VM of a random host. At least one VM must exist.
func (r *loadRun) anyVM() fleet.VMID {
	for at := rand.IntN(len(r.agents)); ; at++ {
		h := r.agents[at%len(r.agents)].host
		h.mu.Lock()
		if n := len(h.order); n > 0 {
			defer h.mu.Unlock()
			return h.order[rand.IntN(n)]
		}
		h.mu.Unlock()
	}
}

// browse opens one page after another until ctx ends.
func (b *browser) browse(ctx context.Context, pageKinds []pageKind) {
	for i := rand.IntN(len(pageKinds)); ctx.Err() == nil; i++ {
		s := pageKinds[i%len(pageKinds)]
		took, err := b.get(ctx, s.path(), "", io.Discard)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			b.run.addFailure(s.kind, err)
		default:
			b.run.opened.add(took)
			b.run.pageHistogram(s.kind).add(took)
		}
		pause(ctx, b.run.o.Pause/2+rand.N(b.run.o.Pause))
	}
}
