package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
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
	keys        atomic.Pointer[keys]
	patience    time.Duration // with a claim that nobody takes the turn of
	stamp       stamps
	results     handing
}

// keys are one set of credentials, and the connections that were made under it.
type keys struct {
	tls  *tls.Config
	line *line
}

// NewClient makes a client of the portal at "https://host:8444". credentials is asked at the start and at each Rekey.
func NewClient(portal string, credentials func() Credentials) (*Client, error) {
	u, err := parsePortal(portal)
	if err != nil {
		return nil, err
	}
	c := &Client{portal: u, credentials: credentials, patience: claimTimeout, results: handing{late: heldUp}}
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
	if old := c.keys.Swap(&keys{tls: conf, line: newLine(c.portal, conf)}); old != nil {
		old.line.retire()
	}
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
}

// Close ends all connections, each once it is idle.
func (c *Client) Close() {
	c.keys.Load().line.retire()
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

// Claim waits for work; no job and no error means: ask again. It gives way to other calls meanwhile.
func (c *Client) Claim(ctx context.Context, in ClaimRequest) (Claim, error) {
	for {
		out, err := c.claimOnce(ctx, in)
		if !errors.Is(err, errTurn) {
			return out, err
		}
	}
}

func (c *Client) claimOnce(ctx context.Context, in ClaimRequest) (out Claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	return out, c.do(ctx, PathClaim, in, &out)
}

// GuestSecret fetches what a job of this host's bears to its guest alone.
func (c *Client) GuestSecret(ctx context.Context, id fleet.JobID) (GuestSecret, error) {
	var out GuestSecret
	err := c.call(ctx, PathJobs+url.PathEscape(string(id))+"/secret", struct{}{}, &out)
	return out, err
}

// PoolSecret fetches the secret of a pool that this host is to have.
func (c *Client) PoolSecret(ctx context.Context, id fleet.PoolID) (PoolSecret, error) {
	var out PoolSecret
	err := c.call(ctx, PathPools+url.PathEscape(string(id))+"/secret", struct{}{}, &out)
	return out, err
}

// FirstBoot fetches what the guest of a VM of this host reads when it first starts.
func (c *Client) FirstBoot(ctx context.Context, id fleet.VMID, of fleet.VMFirstBoot) (FirstBoot, error) {
	var out FirstBoot
	err := c.call(ctx, PathFirstBoots+url.PathEscape(string(id)), FirstBootRequest{of}, &out)
	return out, err
}

// Progress tells how far a job is.
func (c *Client) Progress(ctx context.Context, id fleet.JobID, in Progress) (ProgressAnswer, error) {
	var out ProgressAnswer
	err := c.call(ctx, PathJobs+url.PathEscape(string(id))+"/progress", in, &out)
	return out, err
}

func (c *Client) call(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.do(ctx, path, in, out)
}

func (c *Client) do(ctx context.Context, path string, in, out any) error {
	req, err := c.request(ctx, path, in)
	if err != nil {
		return err
	}
	claim := path == PathClaim
	if claim {
		req.Header.Set(TurnsHeader, "1")
	}
	got, err := c.keys.Load().line.send(ctx, req, claim)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return got.into(out)
}

func (c *Client) request(ctx context.Context, path string, in any) (*http.Request, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.portal.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header()
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

func (c *Client) header() http.Header {
	h := http.Header{}
	if s := c.session.Load(); s != nil {
		h.Set(SessionHeader, *s)
	}
	return h
}

// answer is one of the portal, read to its end.
type answer struct {
	status int
	body   []byte
	last   bool // nothing follows it on its connection
}

// into decodes an answer; out may be nil.
func (a answer) into(out any) error {
	switch {
	case a.status/100 != 2:
		return problem(a.status, bytes.NewReader(a.body))
	case out == nil || len(a.body) == 0:
		return nil
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		return fmt.Errorf("read the portal's answer: %w", err)
	}
	return nil
}
