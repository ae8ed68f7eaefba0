package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"quantix/internal/fleet"
)

var watchedTokenPath = regexp.MustCompile(`/hosts/join\?token=([0-9a-f-]{36})`)

func TestJoinTokenPageShowsSecretOnceAndAwaitsHost(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/hosts/join").requireStatus(t, http.StatusOK).contains(t, "Create a join token", "No join tokens yet.")

	a := b.post("/hosts/join", url.Values{}).requireStatus(t, http.StatusOK)
	a.contains(t, "quantix agent join --portal https://portal.example:8444 --token qxj_", "Waiting for the host.", "expires in 14 min")
	found := watchedTokenPath.FindStringSubmatch(a.body)
	if found == nil {
		t.Fatal("the page does not refresh until the host joins")
	}
	id, state := found[1], "/hosts/join?token="+found[1]
	b.get(state).requireStatus(t, http.StatusOK).excludes(t, "qxj_")

	p.addHost("host-7", 0)
	p.execSQL("UPDATE join_tokens SET used_at = now(), used_by = 'host-7' WHERE id = $1", id)
	b.getFragment(state, "join-state").requireStatus(t, http.StatusOK).contains(t, "host-7</a> has joined.", "Online")
	b.post("/hosts/join/"+id+"/revoke", url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "has joined with this token already")
}

func TestJoinTokenRevoked(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.post("/hosts/join", url.Values{}, htmxFormHeaders("join-token")...).requireStatus(t, http.StatusOK)
	a.excludes(t, "<html")
	id := watchedTokenPath.FindStringSubmatch(a.body)[1]
	b.post("/hosts/join/"+id+"/revoke", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.getFragment("/hosts/join?token="+id, "join-state").contains(t, "This token was revoked.")
	b.get("/hosts/join").contains(t, "Revoked")
	p.newSignedInBrowser("otto", fleet.RoleOperator).post("/hosts/join", url.Values{}).requireStatus(t, http.StatusForbidden)
}

func TestJoinTokenCreatedForExistingHost(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	host := p.addHost("host-7", time.Minute)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/hosts/"+string(host)).requireStatus(t, http.StatusOK).contains(t, "Join again", "/hosts/join?host="+string(host))
	b.get("/hosts/join?host="+string(host)).requireStatus(t, http.StatusOK).contains(t, "Join host-7 again", "Create a join token for host-7")
	b.get("/hosts/join?host=00000000-0000-7000-8000-000000000009").requireStatus(t, http.StatusNotFound)
	a := b.post("/hosts/join", url.Values{"host": {string(host)}}).requireStatus(t, http.StatusOK)
	a.contains(t, "quantix agent join --portal", "Waiting for the host.", "Join a host again")
	b.post("/hosts/join", url.Values{"host": {"00000000-0000-7000-8000-000000000009"}}).requireStatus(t, http.StatusNotFound)
}
