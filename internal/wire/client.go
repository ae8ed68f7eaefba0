package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"quantix/internal/fleet"
)

// Bounds of a call: how long it may take and how much of an answer is read.
const (
	callTimeout  = 15 * time.Second
	claimTimeout = ClaimWait + 10*time.Second
	maxAnswer    = 16 << 20
)

// Credentials are what an agent shows and whom it trusts: the certificate with its key, and nothing but the pinned authority.
type Credentials struct {
	Certificate tls.Certificate
	CA          *x509.CertPool
}

// Client speaks to one portal. It is safe for use by many goroutines.
type Client struct {
	portal      *url.URL
	credentials func() Credentials
	session     atomic.Pointer[string]
	lines       atomic.Pointer[lines]
	stamp       stamps
}

// lines are the connections made under one set of credentials. Claims have a transport of their own, so that a parked
// claim never stands between a report and its connection.
type lines struct {
	tls           *tls.Config
	calls, claims *http.Client
}

// NewClient makes a client of the portal at "https://host:8444". credentials is asked at the start and at each Rekey.
func NewClient(portal string, credentials func() Credentials) (*Client, error) {
	u, err := parsePortal(portal)
	if err != nil {
		return nil, err
	}
	c := &Client{portal: u, credentials: credentials}
	c.Rekey()
	return c, nil
}

func parsePortal(portal string) (*url.URL, error) {
	u, err := url.Parse(portal)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.User != nil {
		return nil, fmt.Errorf("%q is no portal address: write it as https://host:8444", portal)
	}
	return u, nil
}

// Rekey takes up new credentials: the next call dials afresh, without a resumed TLS session of the old certificate.
// Calls under way end undisturbed.
func (c *Client) Rekey() {
	cred := c.credentials()
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		RootCAs:            cred.CA,
		Certificates:       []tls.Certificate{cred.Certificate},
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
		NextProtos:         []string{"http/1.1"},
	}
	next := &lines{tls: conf, calls: newHTTP(conf, callTimeout), claims: newHTTP(conf, claimTimeout)}
	if old := c.lines.Swap(next); old != nil {
		old.calls.CloseIdleConnections()
		old.claims.CloseIdleConnections()
	}
}

// newHTTP is HTTP/1.1 without proxy and without redirects: the portal is who it is.
func newHTTP(conf *tls.Config, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext:         newDialer().DialContext,
			TLSClientConfig:     conf,
			TLSHandshakeTimeout: 10 * time.Second,
			TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
}

// Close ends all idle connections.
func (c *Client) Close() {
	l := c.lines.Load()
	l.calls.CloseIdleConnections()
	l.claims.CloseIdleConnections()
}

// Hello opens a session and keeps it for the calls that follow.
func (c *Client) Hello(ctx context.Context, in Hello) (HelloAnswer, error) {
	var out HelloAnswer
	if err := c.call(ctx, PathHello, in, &out); err != nil {
		return out, err
	}
	c.session.Store(&out.Session)
	c.stamp.heard(out.At)
	return out, nil
}

// Renew asks for the next certificate.
func (c *Client) Renew(ctx context.Context, in RenewRequest) (Certificate, error) {
	var out Certificate
	err := c.call(ctx, PathRenew, in, &out)
	return out, err
}

// Report says what the host knows.
func (c *Client) Report(ctx context.Context, in Report) (ReportAnswer, error) {
	var out ReportAnswer
	in.Stamp = c.stamp.now()
	err := c.call(ctx, PathReport, in, &out)
	if err == nil {
		c.stamp.heard(out.At)
	}
	return out, err
}

// Claim waits for work; no job and no error means: ask again.
func (c *Client) Claim(ctx context.Context, in ClaimRequest) (Claim, error) {
	var out Claim
	err := c.do(ctx, c.lines.Load().claims, PathClaim, "", in, &out)
	return out, err
}

// Progress tells how far a job is.
func (c *Client) Progress(ctx context.Context, id fleet.JobID, in Progress) error {
	return c.call(ctx, PathJobs+url.PathEscape(string(id))+"/progress", in, nil)
}

// Finish hands in a job's result.
func (c *Client) Finish(ctx context.Context, id fleet.JobID, in Finish) (FinishAnswer, error) {
	var out FinishAnswer
	err := c.call(ctx, PathJobs+url.PathEscape(string(id))+"/finish", in, &out)
	return out, err
}

func (c *Client) call(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, c.lines.Load().calls, path, "", in, out)
}

func (c *Client) do(ctx context.Context, via *http.Client, path, bearer string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.portal.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.header()
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	return exchange(via, req, out)
}

func (c *Client) header() http.Header {
	h := http.Header{}
	if s := c.session.Load(); s != nil {
		h.Set(SessionHeader, *s)
	}
	return h
}

// exchange reads each body to its end, within its bound, so that the connection can be used again.
func exchange(via *http.Client, req *http.Request, out any) error {
	resp, err := via.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return problem(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the portal's answer: %w", err)
	case len(data) > maxAnswer:
		return errors.New("the portal's answer is larger than 16 MiB")
	case out == nil || len(data) == 0:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read the portal's answer: %w", err)
	}
	return nil
}
