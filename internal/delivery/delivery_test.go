package delivery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"quantix/internal/channel"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func oneAlarm() channel.Message {
	var m channel.Message
	m.Add(channel.Event{Event: fleet.AlarmRaised, Object: "host-1", Severity: fleet.AlarmCritical, Cause: "Its agent is offline.", Text: "Its agent is offline.", Rule: "host-lost"})
	return m
}

func envelope() channel.Envelope {
	return channel.Envelope{ID: "delivery-1", Channel: "ops", At: time.Now()}
}

func fleetHook(url string) delivery.Receiver {
	return delivery.Receiver{OfFleet: true, Spec: channel.Spec{Kind: channel.Webhook, URL: url, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
}

func sendError(t *testing.T, err error) *delivery.Error {
	t.Helper()
	e, ok := errors.AsType[*delivery.Error](err)
	if !ok {
		t.Fatalf("error %v, want a *delivery.Error", err)
	}
	return e
}

// The values are the example of the specification "Standard Webhooks".
func TestSignatureFollowsStandardWebhooks(t *testing.T) {
	t.Parallel()
	got := delivery.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWebhookReceivesSignedMessage(t *testing.T) {
	t.Parallel()
	type request struct {
		header http.Header
		body   []byte
	}
	got := make(chan request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
	}))
	defer server.Close()
	s := delivery.New(delivery.Settings{NotifyTo: loopback, Portal: "https://q.example"})
	if err := s.Send(t.Context(), fleetHook(server.URL+"/hook"), oneAlarm(), envelope()); err != nil {
		t.Fatal(err)
	}
	r := <-got
	var body struct {
		Events []struct{ Object, URL string }
	}
	if err := json.Unmarshal(r.body, &body); err != nil || len(body.Events) != 1 || body.Events[0].Object != "host-1" {
		t.Errorf("body %s: %v", r.body, err)
	}
	if id := r.header.Get("Webhook-Id"); id != "delivery-1" || r.header.Get("Webhook-Signature") != delivery.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", id, r.header.Get("Webhook-Timestamp"), r.body) {
		t.Errorf("header %v", r.header)
	}
}

func TestRequestsToPrivateAddressesRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	defer server.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	defer secure.Close()
	closed, open := delivery.New(delivery.Settings{}), delivery.New(delivery.Settings{NotifyTo: loopback})
	tenant := fleetHook(server.URL)
	tenant.OfFleet = false
	byName := fleetHook(strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	for name, c := range map[string]struct {
		sender *delivery.Sender
		to     delivery.Receiver
	}{
		"a network that is not allowed":      {closed, fleetHook(server.URL)},
		"the same with TLS":                  {closed, fleetHook(secure.URL)},
		"a name of it":                       {closed, byName},
		"an allowed network of the fleet":    {open, tenant},
		"the metadata service of a cloud":    {open, fleetHook("http://169.254.169.254/latest")},
		"an IPv4 address inside an IPv6 one": {open, fleetHook("http://[64:ff9b::a00:1]/")},
		"loopback that is no own address":    {closed, fleetHook("https://127.0.0.2:1/")},
		"public without encryption":          {open, fleetHook("http://192.0.2.1/")},
	} {
		if e := sendError(t, c.sender.Send(t.Context(), c.to, oneAlarm(), envelope())); !e.Permanent {
			t.Errorf("%s: %v is not permanent", name, e)
		}
	}
}

func TestAnswersDecideAboutFurtherAttempts(t *testing.T) {
	t.Parallel()
	s := delivery.New(delivery.Settings{NotifyTo: loopback})
	for name, c := range map[string]struct {
		answer    http.HandlerFunc
		permanent bool
		text      string
		wait      time.Duration
	}{
		"a fault of the server": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "broken\x1b[31m\nline", http.StatusInternalServerError)
		}, false, "answered 500 Internal Server Error: broken [31m line.", 0},
		"too many requests": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
		}, false, "answered 429", 90 * time.Second},
		"a removed webhook": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, true, "answered 404", 0},
		"a redirect": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(http.StatusFound)
		}, true, "Redirects are not followed", 0},
		"a cut connection": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.Close()
		}, false, "could not be reached", 0},
		"bytes that are no text": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nno\x00colon\xff "+strings.Repeat("x", 5000)+"\r\n\r\n")
			conn.Close()
		}, false, "could not be reached", 0},
	} {
		server := httptest.NewServer(c.answer)
		e := sendError(t, s.Send(t.Context(), fleetHook(server.URL+"/secret-path"), oneAlarm(), envelope()))
		server.Close()
		if e.Permanent != c.permanent || !strings.Contains(e.Text, c.text) || e.RetryAfter != c.wait || strings.Contains(e.Text, "secret-path") || !fleet.IsPlainText(e.Text) || len(e.Text) > 400 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// The receiver of a project's channel is anybody's choice, so its errors do not tell what names inside the network resolve to.
func TestErrorsOfProjectsTellNothingAboutTheNetwork(t *testing.T) {
	t.Parallel()
	s := delivery.New(delivery.Settings{})
	for _, address := range []string{"https://localhost/", "https://name.invalid/"} {
		e := sendError(t, s.Send(t.Context(), delivery.Receiver{Spec: channel.Spec{Kind: channel.Webhook, URL: address}}, oneAlarm(), envelope()))
		if strings.Contains(e.Text, "127.0.0.1") || strings.Contains(e.Text, "::1") || strings.Contains(e.Text, ":53") {
			t.Errorf("%s: %s", address, e.Text)
		}
	}
}

// mailbox is an SMTP server that keeps the messages.
type mailbox struct {
	mu       sync.Mutex
	messages []string
}

type mailSession struct {
	box *mailbox
	to  []string
}

func (b *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{box: b}, nil }

func (*mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &smtp.SMTPError{Code: 550, Message: "no such mailbox"}
	}
	if strings.HasPrefix(to, "later@") {
		return &smtp.SMTPError{Code: 451, Message: "greylisted"}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.messages = append(s.box.messages, strings.Join(s.to, ",")+"\n"+string(text))
	return err
}

func (s *mailSession) Reset()      { s.to = nil }
func (*mailSession) Logout() error { return nil }

// newMailServer starts an SMTP server with the certificate of httptest, which is valid for example.com and 127.0.0.1.
func newMailServer(t *testing.T, implicitTLS, offersTLS bool) (box *mailbox, address string, roots *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	roots = x509.NewCertPool()
	roots.AddCert(web.Certificate())
	box = &mailbox{}
	server := smtp.NewServer(box)
	server.Domain, server.ReadTimeout, server.WriteTimeout = "mail.example", 10*time.Second, 10*time.Second
	conf := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	if offersTLS {
		server.TLSConfig = conf
	}
	if implicitTLS {
		l = tls.NewListener(l, conf)
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return box, address, roots
}

func TestMailIsSentEncryptedToEachAddress(t *testing.T) {
	t.Parallel()
	to := delivery.Receiver{Spec: channel.Spec{Kind: channel.Email, To: []string{"ann@example.org", "bob@example.org"}}}
	for name, implicit := range map[string]bool{delivery.MailStartTLS: false, delivery.MailTLS: true} {
		box, address, roots := newMailServer(t, implicit, true)
		s := delivery.New(delivery.Settings{Roots: roots, Mail: delivery.Mail{Server: address, TLS: name, From: "quantix@example.org"}})
		if err := s.Send(t.Context(), to, oneAlarm(), envelope()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(box.messages) != 2 || !strings.HasPrefix(box.messages[0], "ann@example.org\n") || !strings.Contains(box.messages[1], "[Quantix] Critical: host-1: Its agent is offline.") ||
			!strings.Contains(box.messages[0], "Message-ID: <delivery-1.0@example.org>") {
			t.Errorf("%s: %q", name, box.messages)
		}
	}
}

func TestMailWithoutEncryptionOrTrustRefused(t *testing.T) {
	t.Parallel()
	to := delivery.Receiver{Spec: channel.Spec{Kind: channel.Email, To: []string{"ann@example.org"}}}
	box, address, roots := newMailServer(t, false, false)
	s := delivery.New(delivery.Settings{Roots: roots, Mail: delivery.Mail{Server: address, TLS: delivery.MailStartTLS, From: "quantix@example.org"}})
	if err := s.Send(t.Context(), to, oneAlarm(), envelope()); err == nil || len(box.messages) > 0 {
		t.Errorf("a server without STARTTLS: %v, %q", err, box.messages)
	}
	box, address, _ = newMailServer(t, false, true)
	s = delivery.New(delivery.Settings{Roots: x509.NewCertPool(), Mail: delivery.Mail{Server: address, TLS: delivery.MailStartTLS, From: "quantix@example.org"}})
	if err := s.Send(t.Context(), to, oneAlarm(), envelope()); err == nil || len(box.messages) > 0 {
		t.Errorf("a server with an unknown certificate: %v, %q", err, box.messages)
	}
}

func TestRefusedMailAddressCostsOthersNothing(t *testing.T) {
	t.Parallel()
	box, address, roots := newMailServer(t, false, true)
	s := delivery.New(delivery.Settings{Roots: roots, Mail: delivery.Mail{Server: address, TLS: delivery.MailStartTLS, From: "quantix@example.org"}})
	to := delivery.Receiver{Spec: channel.Spec{Kind: channel.Email, To: []string{"nobody@example.org", "bob@example.org"}}}
	e := sendError(t, s.Send(t.Context(), to, oneAlarm(), envelope()))
	if !e.Permanent || !strings.Contains(e.Text, "nobody@example.org") || !strings.Contains(e.Text, "no such mailbox") || len(box.messages) != 1 {
		t.Errorf("%+v, messages %q", e, box.messages)
	}
}

// Greylisting refuses the first attempt only.
func TestMailIsSentAgainOnlyToAddressesThatAreLeft(t *testing.T) {
	t.Parallel()
	box, address, roots := newMailServer(t, false, true)
	s := delivery.New(delivery.Settings{Roots: roots, Mail: delivery.Mail{Server: address, TLS: delivery.MailStartTLS, From: "quantix@example.org"}})
	to := delivery.Receiver{Spec: channel.Spec{Kind: channel.Email, To: []string{"nobody@example.org", "later@example.org", "bob@example.org", "later@example.org"}}}
	m := oneAlarm()
	e := sendError(t, s.Send(t.Context(), to, m, envelope()))
	if e.Permanent || !slices.Equal(e.Left, []string{"later@example.org"}) || !slices.Equal(e.Lost, []string{"nobody@example.org"}) || len(box.messages) != 1 {
		t.Fatalf("%+v, messages %q", e, box.messages)
	}
	m.Left, m.Lost = e.Left, e.Lost
	if e := sendError(t, s.Send(t.Context(), to, m, envelope())); e.Permanent || !slices.Equal(e.Left, m.Left) || len(box.messages) != 1 {
		t.Errorf("second attempt: %+v, messages %q", e, box.messages)
	}
	m.Left = []string{"bob@example.org"}
	if e := sendError(t, s.Send(t.Context(), to, m, envelope())); !e.Permanent || !strings.Contains(e.Text, "nobody@example.org") || len(box.messages) != 2 {
		t.Errorf("last attempt: %+v, messages %q", e, box.messages)
	}
}

func TestHangingMailServerEndsWithContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := delivery.New(delivery.Settings{Mail: delivery.Mail{Server: l.Addr().String(), TLS: delivery.MailStartTLS, From: "quantix@example.org"}})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := s.Send(ctx, delivery.Receiver{Spec: channel.Spec{Kind: channel.Email, To: []string{"ann@example.org"}}}, oneAlarm(), envelope()); err == nil {
		t.Error("sent")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the attempt took %s", took)
	}
}
