//go:build linux && ordeal

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"quantix/internal/channel"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
)

// noticeLimit is longer than a host without reports stays online, an evaluation of the rules and the wait of a message.
const noticeLimit = 90 * time.Second

// inbox keeps the texts that a receiver got.
type inbox struct {
	mu    sync.Mutex
	texts []string
}

func (b *inbox) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts = append(b.texts, text)
}

// waitFor waits until one text contains all parts.
func (b *inbox) waitFor(t *testing.T, parts ...string) {
	t.Helper()
	eventually(t, noticeLimit, fmt.Sprintf("a message with %q", parts), func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.texts {
			found := true
			for _, p := range parts {
				found = found && strings.Contains(text, p)
			}
			if found {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%q", b.texts)
	})
}

type mailSession struct{ box *inbox }

func (b *inbox) NewSession(*smtp.Conn) (smtp.Session, error) { return mailSession{b}, nil }
func (mailSession) Mail(string, *smtp.MailOptions) error     { return nil }
func (mailSession) Rcpt(string, *smtp.RcptOptions) error     { return nil }
func (mailSession) Reset()                                   {}
func (mailSession) Logout() error                            { return nil }
func (s mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.box.add(strings.NewReplacer("=\r\n", "", "=20", " ").Replace(string(text)))
	return err
}

// newMailServer starts a mail server with STARTTLS. roots is the file with its certificate.
func newMailServer(t *testing.T) (box *inbox, address, roots string) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	roots = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	box = &inbox{}
	server := smtp.NewServer(box)
	server.Domain, server.ReadTimeout, server.WriteTimeout = "mail.example", stepLimit, stepLimit
	server.TLSConfig = &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return box, l.Addr().String(), roots
}

func TestAlarmNotifiesWebhookAndMailAndClears(t *testing.T) {
	t.Parallel()
	mails, mailAddress, roots := newMailServer(t)
	const key = "key-of-the-test-receiver"
	hooks := &inbox{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Webhook-Signature") != delivery.Sign(key, r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		hooks.add(string(body))
	}))
	defer receiver.Close()
	r := newRigWithPortal(t, "alarm", 30, []string{"SSL_CERT_FILE=" + roots}, "--notify-to", "127.0.0.0/8", "--mail-server", mailAddress, "--mail-from", "quantix@example.org")
	r.joinHost()
	a := r.api()
	rule := findByName[fleet.AlarmRuleView](t, a, "alarm-rules", "host-lost")
	requestJSON[json.RawMessage](t, a, http.StatusOK, http.MethodPatch, "/api/v1/alarm-rules/"+string(rule.ID), map[string]any{"spec": map[string]any{"forSeconds": 5}})
	var ids []channel.ID
	for name, spec := range map[string]map[string]any{
		"hook": {"kind": "webhook", "url": receiver.URL + "/hook", "secret": key, "events": []string{"raised", "acknowledged", "cleared"}, "rules": []fleet.AlarmRuleID{rule.ID}},
		"mail": {"kind": "email", "to": []string{"ops@example.org"}, "rules": []fleet.AlarmRuleID{rule.ID}},
	} {
		c := requestJSON[channel.Channel](t, a, http.StatusCreated, http.MethodPost, "/api/v1/channels", map[string]any{"name": name, "spec": spec})
		requestJSON[channel.Delivery](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/channels/"+string(c.ID)+"/test", nil)
		ids = append(ids, c.ID)
	}
	hooks.waitFor(t, `"test":true`)
	mails.waitFor(t, "Subject: [Quantix] Test message")

	pid := labAgentPID(t, r.dir+"/h")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	stopped := time.Now()
	hooks.waitFor(t, `"event":"raised"`, `"object":"`+r.name+`"`, `"severity":"critical"`)
	t.Logf("the webhook was notified %s after the agent's stop", time.Since(stopped).Round(time.Second))
	mails.waitFor(t, "Subject: [Quantix] Critical: "+r.name)

	open := requestJSON[struct{ Items []fleet.Alarm }](t, a, http.StatusOK, http.MethodGet, "/api/v1/alarms?filter=state:open+rule:host-lost", nil).Items
	if len(open) != 1 {
		t.Fatalf("%d open alarms of the host", len(open))
	}
	requestJSON[fleet.AlarmDetails](t, a, http.StatusOK, http.MethodPost, "/api/v1/alarms/"+string(open[0].ID)+"/acknowledge", map[string]any{"note": "The agent was stopped by a test."})
	hooks.waitFor(t, `"event":"acknowledged"`, "The agent was stopped by a test.")

	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	hooks.waitFor(t, `"event":"cleared"`)
	mails.waitFor(t, "Subject: [Quantix] Cleared: "+r.name)
	for _, id := range ids {
		for _, d := range requestJSON[struct{ Items []channel.Delivery }](t, a, http.StatusOK, http.MethodGet, "/api/v1/channels/"+string(id)+"/deliveries", nil).Items {
			if d.State != channel.Sent || d.Attempts != 1 {
				t.Errorf("delivery %+v", d)
			}
		}
	}
}
