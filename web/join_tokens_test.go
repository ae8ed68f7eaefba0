package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"quantix/internal/fleet"
)

var watchedToken = regexp.MustCompile(`/hosts/join\?token=([0-9a-f-]{36})`)

func TestJoinTokenPageShowsSecretOnceAndAwaitsHost(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/hosts/join").is(t, http.StatusOK).has(t, "Create a join token", "No join tokens yet.")

	a := b.post("/hosts/join", url.Values{}).is(t, http.StatusOK)
	a.has(t, "quantix agent join --portal https://portal.example:8444 --token qxj_", "Waiting for the host.", "expires in 14 min")
	found := watchedToken.FindStringSubmatch(a.body)
	if found == nil {
		t.Fatal("the page does not refresh until the host joins")
	}
	id, state := found[1], "/hosts/join?token="+found[1]
	b.get(state).is(t, http.StatusOK).lacks(t, "qxj_")

	p.addHost("host-7", 0)
	p.exec("UPDATE join_tokens SET used_at = now(), used_by = 'host-7' WHERE id = $1", id)
	b.fragment(state, "join-state").is(t, http.StatusOK).has(t, "host-7</a> has joined.", "Online")
	b.post("/hosts/join/"+id+"/revoke", url.Values{}).is(t, http.StatusConflict).has(t, "has joined with this token already")
}

func TestJoinTokenRevoked(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	a := b.post("/hosts/join", url.Values{}, hx("join-token")...).is(t, http.StatusOK)
	a.lacks(t, "<html")
	id := watchedToken.FindStringSubmatch(a.body)[1]
	b.post("/hosts/join/"+id+"/revoke", url.Values{}).is(t, http.StatusSeeOther)
	b.fragment("/hosts/join?token="+id, "join-state").has(t, "This token was revoked.")
	b.get("/hosts/join").has(t, "Revoked")
	p.signedIn("otto", fleet.RoleOperator).post("/hosts/join", url.Values{}).is(t, http.StatusForbidden)
}

func TestHostRejoinsFromItsPage(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	host := p.addHost("host-7", time.Minute)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/hosts/"+string(host)).is(t, http.StatusOK).has(t, "Join again", "/hosts/join?host="+string(host))
	b.get("/hosts/join?host="+string(host)).is(t, http.StatusOK).has(t, "Join host-7 again", "Create a join token for host-7")
	b.get("/hosts/join?host=00000000-0000-7000-8000-000000000009").is(t, http.StatusNotFound)
	a := b.post("/hosts/join", url.Values{"host": {string(host)}}).is(t, http.StatusOK)
	a.has(t, "quantix agent join --portal", "Waiting for the host.", "Join a host again")
	b.post("/hosts/join", url.Values{"host": {"00000000-0000-7000-8000-000000000009"}}).is(t, http.StatusNotFound)
}
