package web_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

var rootActor = fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}

// agentCaller is a client of the agent listener, with or without a client certificate and an agent session.
type agentCaller struct {
	t       *testing.T
	url     string
	trust   *tls.Config
	session string
}

// newAgentCaller returns a caller that trusts the CA of agent m and sends the given certificate (nil: none) and agent
// session.
func newAgentCaller(t *testing.T, url string, m *simulatedAgent, cert *tls.Certificate, session string) agentCaller {
	conf := &tls.Config{RootCAs: m.credentials.CA, MinVersion: tls.VersionTLS13}
	if cert != nil {
		conf.Certificates = []tls.Certificate{*cert}
	}
	return agentCaller{t, url, conf, session}
}

func isRelayPath(path string) bool {
	return strings.HasPrefix(path, wire.PathRelay) || strings.HasPrefix(path, wire.PathConsole)
}

// request sends a request and returns the response. For a relay it opens and closes the websocket.
func (c agentCaller) request(method, path, body string) answer {
	c.t.Helper()
	header := http.Header{}
	if c.session != "" {
		header.Set(wire.SessionHeader, c.session)
	}
	if isRelayPath(path) {
		d := websocket.Dialer{TLSClientConfig: c.trust, Subprotocols: []string{"binary"}, HandshakeTimeout: 20 * time.Second}
		ws, got, err := d.DialContext(c.t.Context(), "wss"+strings.TrimPrefix(c.url, "https")+path, header)
		if ws != nil {
			ws.Close()
		}
		if got == nil {
			c.t.Fatal(err)
		}
		return answer{got.StatusCode, got.Header, ""}
	}
	transport := &http.Transport{TLSClientConfig: c.trust}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = header
	got, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer got.Body.Close()
	var text bytes.Buffer
	text.ReadFrom(got.Body)
	return answer{got.StatusCode, got.Header, text.String()}
}

// sendHello sends hello and returns the id of the agent's new session.
func (m *simulatedAgent) sendHello(t *testing.T, instance string) (session string) {
	t.Helper()
	hello, err := m.Hello(t.Context(), wire.Hello{Instance: instance, Fingerprint: string(m.id), Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	m.seq = hello.SeqBase
	return hello.Session
}

// rejoinHost joins the existing host of agent m with a new key, as an administrator does after the key was lost.
func (p *portal) rejoinHost(agentURL string, m *simulatedAgent) {
	p.t.Helper()
	token, err := p.control.CreateJoinToken(p.t.Context(), rootActor, m.id)
	if err != nil {
		p.t.Fatal(err)
	}
	key, csr := newKeyAndCSR(p.t)
	got, err := wire.Join(p.t.Context(), agentURL, token.Secret, wire.JoinRequest{Name: "again", CSR: csr})
	if err != nil {
		p.t.Fatal(err)
	}
	m.credentials = agentCredentials(p.t, key, got.Certificate)
	m.ReloadCredentials()
}

// rowsChangedByAgents returns the rows that agents' requests may change: for each table, its rows as text.
func (p *portal) rowsChangedByAgents() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, table := range []string{"hosts", "host_sessions", "vms", "host_meters", "found_vms", "pools", "assignments", "networks", "tasks", "jobs", "console_tickets", "join_tokens", "audit", "host_health", "host_checks", "host_conditions", "host_events", "host_artifacts"} {
		var rows string
		if err := p.pool.QueryRow(p.t.Context(), `SELECT COALESCE(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+` t`).Scan(&rows); err != nil {
			p.t.Fatal(err)
		}
		out[table] = rows
	}
	return out
}

func marshalJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
