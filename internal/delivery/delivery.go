// Package delivery sends the messages of channels: webhook requests and e-mails. A receiver is anybody's address, so
// requests go only to the public Internet and to networks that the portal's administrator allows.
package delivery

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"quantix/internal/channel"
	"quantix/internal/egress"
	"quantix/internal/fleet"
)

// Timeout limits one attempt.
const Timeout = 20 * time.Second

const (
	maxAnswerBytes    = 2048
	maxQuotedAnswer   = 200
	maxAnswerHeaders  = 64 << 10
	maxRetryAfter     = time.Hour
	headerID          = "Webhook-Id"
	headerTimestamp   = "Webhook-Timestamp"
	headerSignature   = "Webhook-Signature"
	secretPrefix      = "whsec_" // of the base64 form of a key
	signatureVersion  = "v1"
	userAgent         = "Quantix"
	refusedAddressFor = "The portal's setting notifyTo must allow that address for channels of the fleet."
)

// Settings are the administrator's settings of a Sender.
type Settings struct {
	NotifyTo []netip.Prefix // private, reserved or own addresses that requests of fleet channels may use
	Mail     Mail
	Portal   string         // address of the portal in messages; empty: none
	Roots    *x509.CertPool // trusted CAs of receivers and mail servers; nil: the system's
}

// Sender sends messages. It is safe for concurrent use.
type Sender struct {
	settings Settings
	fleet    receivers
	others   receivers
	now      func() time.Time
}

// receivers are the HTTP clients for one kind of owner.
type receivers struct{ https, http *http.Client }

// New returns a Sender.
func New(s Settings) *Sender {
	return &Sender{settings: s, fleet: newReceivers(s, s.NotifyTo, refusedAddressFor), others: newReceivers(s, nil, "Only channels of the fleet may use it."), now: time.Now}
}

func newReceivers(s Settings, allowed []netip.Prefix, advice string) receivers {
	client := func(d *egress.Dialer) *http.Client {
		return &http.Client{
			Timeout: Timeout,
			Transport: &http.Transport{
				Proxy: nil, DialContext: d.DialContext, TLSHandshakeTimeout: egress.DialTimeout, MaxResponseHeaderBytes: maxAnswerHeaders,
				MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSClientConfig: &tls.Config{RootCAs: s.Roots, MinVersion: tls.VersionTLS12},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	secure, plain := egress.NewDialer(allowed, advice), egress.NewDialer(allowed, "Plain http needs a network in the portal's setting notifyTo. Use https instead.")
	plain.AllowedOnly = true
	return receivers{client(secure), client(plain)}
}

// CanMail reports whether a mail server is configured.
func (s *Sender) CanMail() bool { return s.settings.Mail.Server != "" }

// Error is why a message was not sent.
type Error struct {
	Text       string // a sentence for people
	Permanent  bool   // another attempt would fail too
	RetryAfter time.Duration
	// Of an e-mail that some addresses received or refused: values of channel.Message for the next attempt.
	Left, Lost []string
}

func (e *Error) Error() string { return e.Text }

// Receiver is where a message goes.
type Receiver struct {
	Spec    channel.Spec // with URL and Secret
	OfFleet bool         // the channel has neither a project nor a user
}

// Send sends a message once. Its errors are of type *Error. Receivers may get a message twice if the portal stops before it
// has recorded the result; the ID in the envelope is then the same.
func (s *Sender) Send(ctx context.Context, to Receiver, m channel.Message, e channel.Envelope) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	e.Portal = s.settings.Portal
	if to.Spec.Kind == channel.Email {
		return s.mail(ctx, to.Spec.To, m, e)
	}
	return s.post(ctx, to, m, e)
}

func (s *Sender) post(ctx context.Context, to Receiver, m channel.Message, e channel.Envelope) error {
	at, err := to.Spec.PostURL()
	if err != nil {
		return &Error{Text: err.Error(), Permanent: true}
	}
	body, err := m.Body(to.Spec.Kind, e)
	if err != nil {
		return &Error{Text: "The message could not be written: " + err.Error(), Permanent: true}
	}
	if to.Spec.Kind == channel.Alertmanager && string(body) == "[]" {
		return nil // nothing in the message changes an alert
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return &Error{Text: "The address of the receiver is not valid.", Permanent: true}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", userAgent)
	if to.Spec.Kind == channel.Webhook {
		stamp := strconv.FormatInt(s.now().Unix(), 10)
		r.Header.Set(headerID, string(e.ID))
		r.Header.Set(headerTimestamp, stamp)
		if to.Spec.Secret != "" {
			r.Header.Set(headerSignature, Sign(to.Spec.Secret, string(e.ID), stamp, body))
		}
	}
	clients := s.others
	if to.OfFleet {
		clients = s.fleet
	}
	client := clients.https
	if at.Scheme == "http" {
		client = clients.http
	}
	answer, err := client.Do(r)
	if err != nil {
		return requestError(at, err, to.OfFleet)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	return answerError(at, answer, text)
}

// Sign returns the signature of a request, as the specification "Standard Webhooks" defines it: the base64 of the
// HMAC-SHA256 of ID, time in seconds and body. A secret that begins with whsec_ is the base64 of the key, any other secret
// is the key itself.
func Sign(secret, id, timestamp string, body []byte) string {
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, secretPrefix); ok {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			key = decoded
		}
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s.%s.", id, timestamp)
	h.Write(body)
	return signatureVersion + "," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// requestError returns why a request got no answer, without the path of the address, which can be secret. The text can
// contain bytes of the receiver. Only owners of fleet channels learn what names resolve to, and by which server.
func requestError(at *url.URL, err error, ofFleet bool) error {
	if refused, ok := errors.AsType[*fleet.Error](err); ok {
		if !ofFleet {
			return &Error{Text: fmt.Sprintf("%s has no address that channels of projects and users may use. Enter the https address of a receiver on the public Internet.", quote([]byte(at.Host))), Permanent: true}
		}
		return &Error{Text: refused.Message, Permanent: true}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Text: fmt.Sprintf("%s did not answer within %s.", at.Host, Timeout)}
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	why := err.Error()
	if failed, ok := errors.AsType[*net.DNSError](err); ok && !ofFleet {
		why = failed.Err // without the address of the DNS server
	}
	return &Error{Text: fmt.Sprintf("%s could not be reached: %s.", at.Host, strings.TrimSuffix(quote([]byte(why)), "."))}
}

// answerError returns why an answer means that the message was not received; nil: it was.
func answerError(at *url.URL, answer *http.Response, text []byte) error {
	code := answer.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	e := &Error{Text: fmt.Sprintf("%s answered %s", at.Host, strings.TrimSpace(strconv.Itoa(code)+" "+http.StatusText(code)))}
	switch {
	case code >= 300 && code < 400:
		e.Text, e.Permanent = e.Text+". Redirects are not followed: enter the address to which it leads", true
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests:
	case code < 500:
		e.Permanent = true
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if quoted := quote(text); quoted != "" {
		e.Text += ": " + quoted
	}
	e.Text = strings.TrimSuffix(e.Text, ".") + "."
	return e
}

// quote returns the beginning of an answer as one line of visible characters.
func quote(text []byte) string {
	line := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, string(text))), " ")
	if len(line) > maxQuotedAnswer {
		line = strings.ToValidUTF8(line[:maxQuotedAnswer], "") + "…"
	}
	return line
}
