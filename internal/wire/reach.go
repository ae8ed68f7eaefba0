package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

var errNoAnswer = errors.New("no answer")

// PortalHostname returns the host of the portal's address.
func (c *Client) PortalHostname() string { return c.portal.Hostname() }

// CheckReachable connects to the portal over a new connection opened by dial. It returns nil once the portal has proven its
// identity and answered with any status. The call changes nothing at the portal.
func (c *Client) CheckReachable(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	conf := c.transport.Load().tls.Clone()
	conf.ClientSessionCache = nil // a resumed session would not prove the portal's certificate again
	httpClient := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				raw, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				own := conf.Clone()
				own.ServerName = c.portal.Hostname()
				conn := tls.Client(raw, own)
				if err := conn.HandshakeContext(ctx); err != nil {
					raw.Close()
					return nil, err
				}
				return conn, nil
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.portal.JoinPath(PathHello).String(), nil)
	if err != nil {
		return err
	}
	answer, err := httpClient.Do(req)
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err // the error returned below names the address already
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNoAnswer
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.portal.Host, err)
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return err
}
