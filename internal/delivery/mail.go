package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"quantix/internal/channel"
	"quantix/internal/egress"
)

// Mail is the mail server that the portal uses. Its zero value means that there is none.
type Mail struct {
	Server   string // host:port
	TLS      string // MailStartTLS, MailTLS or MailPlain
	From     string // address of the sender
	User     string // empty: no authentication
	Password string
}

// Values of Mail.TLS.
const (
	MailStartTLS = "starttls" // STARTTLS is required
	MailTLS      = "tls"      // TLS from the first byte, usually on port 465
	MailPlain    = "none"     // no encryption; no password is sent
)

// mail sends the message to all addresses.
func (s *Sender) mail(ctx context.Context, to []string, m channel.Message, e channel.Envelope) error {
	server := s.settings.Mail
	if server.Server == "" {
		return &Error{Text: "The portal has no mail server. An administrator sets mail.server in the portal's settings.", Permanent: true}
	}
	_, domain, _ := strings.Cut(server.From, "@")
	messages := map[string]*gomail.Msg{}
	for i, address := range to { // a message for each address: a refused address costs the others nothing, and nobody sees the others
		if len(m.Left) > 0 && !slices.Contains(m.Left, address) {
			continue
		}
		msg := gomail.NewMsg()
		if err := errors.Join(msg.From(server.From), msg.To(address)); err != nil {
			return &Error{Text: "The mail server would refuse an address: " + err.Error() + ".", Permanent: true}
		}
		msg.Subject("[Quantix] " + m.Summary())
		msg.SetDateWithValue(e.At)
		msg.SetMessageIDWithValue(fmt.Sprintf("%s.%d@%s", e.ID, i, domain)) // the same at each attempt, so that mail programs can drop a second copy
		msg.SetGenHeader("Auto-Submitted", "auto-generated")
		msg.SetBodyString(gomail.TypeTextPlain, m.Text(e.Channel, e.Portal))
		messages[address] = msg
	}
	client, err := s.mailClient(ctx)
	if err != nil {
		return &Error{Text: "The portal's settings of the mail server are not valid: " + err.Error() + ".", Permanent: true}
	}
	if len(messages) == 0 {
		return nil // the addresses that are left were removed from the channel
	}
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return mailError(server.Server, err)
	}
	defer client.CloseWithSMTPClient(conn) //nolint:errcheck // the results of the messages are known
	left, lost, tried := []string{}, slices.Clone(m.Lost), len(messages)
	last := &Error{Text: "Refused at an earlier attempt."}
	for _, address := range to {
		msg := messages[address]
		if msg == nil {
			continue
		}
		delete(messages, address) // an address that is listed twice gets one message
		if err := client.SendWithSMTPClient(conn, msg); err != nil {
			last = mailError(server.Server, err)
			if last.Permanent {
				lost = append(lost, address)
			} else {
				left = append(left, address)
			}
		}
	}
	return mailResult(tried, left, lost, last)
}

// mailResult returns the result of an attempt at a number of addresses. Addresses that received the message or refused it
// get no further attempt.
func mailResult(tried int, left, lost []string, last *Error) error {
	switch {
	case len(left)+len(lost) == 0:
		return nil
	case len(left) == tried && len(lost) == 0:
		return last
	}
	out := &Error{Text: "Not sent to " + strings.Join(slices.Concat(left, lost), ", ") + ": " + last.Text, Permanent: len(left) == 0}
	if !out.Permanent {
		out.Left, out.Lost = left, lost
	}
	return out
}

// mailClient returns a client whose connection is closed when ctx ends, because the client itself limits only the time of each
// step.
func (s *Sender) mailClient(ctx context.Context) (*gomail.Client, error) {
	server := s.settings.Mail
	host, portText, err := net.SplitHostPort(server.Server)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{ServerName: host, RootCAs: s.settings.Roots, MinVersion: tls.VersionTLS12}
	options := []gomail.Option{
		gomail.WithPort(port), gomail.WithTimeout(egress.DialTimeout), gomail.WithTLSConfig(conf), gomail.WithDialContextFunc(func(dialing context.Context, network, address string) (net.Conn, error) {
			conn, err := dialMail(dialing, network, address, server.TLS == MailTLS, conf)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}),
	}
	policy := gomail.TLSMandatory
	switch server.TLS {
	case MailPlain:
		policy = gomail.NoTLS
	case MailTLS:
		options = append(options, gomail.WithSSL())
	}
	options = append(options, gomail.WithTLSPolicy(policy))
	if server.User != "" && server.TLS != MailPlain {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(server.User), gomail.WithPassword(server.Password))
	}
	return gomail.NewClient(host, options...)
}

// dialMail connects to the mail server, with TLS if secure.
func dialMail(ctx context.Context, network, address string, secure bool, conf *tls.Config) (net.Conn, error) {
	if secure {
		return (&tls.Dialer{Config: conf}).DialContext(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// mailError returns why the mail server did not accept a message.
func mailError(server string, err error) *Error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Text: fmt.Sprintf("The mail server %s did not answer in time.", server)}
	}
	out := &Error{Text: fmt.Sprintf("The mail server %s did not accept the message: %s.", server, strings.TrimSuffix(quote([]byte(err.Error())), "."))}
	if refused, ok := errors.AsType[*gomail.SendError](err); ok && refused.ErrorCode() >= 500 {
		out.Permanent = true
	}
	return out
}
