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
	"quantix/internal/healthevent"
)

// Limits of a call to the portal: its timeout, and the largest answer in bytes.
const (
	callTimeout  = 15 * time.Second
	claimTimeout = ClaimWait + 10*time.Second
	maxAnswer    = 16 << 20
)

// Credentials are the agent's client certificate with its key, and a pool with the only authority that the agent
// trusts.
type Credentials struct {
	Certificate tls.Certificate
	CA          *x509.CertPool
}

// Client calls one portal. It is safe for concurrent use.
type Client struct {
	portal      *url.URL
	credentials func() Credentials
	session     atomic.Pointer[string]
	transport   atomic.Pointer[transport]
	claimLimit  time.Duration // timeout of one claim request
	clock       portalClock
	results     resultQueue
}

// transport holds the TLS configuration for one certificate of the agent, and the connections dialled with it.
type transport struct {
	tls   *tls.Config
	conns *connPool
}

// NewClient returns a client of the portal at "https://host:8444". It calls credentials now and at each Rekey.
func NewClient(portal string, credentials func() Credentials) (*Client, error) {
	u, err := parsePortal(portal)
	if err != nil {
		return nil, err
	}
	c := &Client{portal: u, credentials: credentials, claimLimit: claimTimeout, results: resultQueue{maxDelay: busyWait}}
	c.ReloadCredentials()
	return c, nil
}

func parsePortal(portal string) (*url.URL, error) {
	u, err := url.Parse(portal)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.User != nil {
		return nil, fmt.Errorf("%q is not a portal address: write the address as https://host:8444", portal)
	}
	return u, nil
}

// ReloadCredentials gets the current credentials again. Later calls dial new connections and do not resume TLS sessions of the old
// certificate. Calls in progress finish undisturbed.
func (c *Client) ReloadCredentials() {
	cred := c.credentials()
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		RootCAs:            cred.CA,
		Certificates:       []tls.Certificate{cred.Certificate},
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
		NextProtos:         []string{"http/1.1"},
	}
	if old := c.transport.Swap(&transport{tls: conf, conns: newConnPool(c.portal, conf)}); old != nil {
		old.conns.closeAllWhenIdle()
	}
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
}

// Close closes each connection once no call uses it.
func (c *Client) Close() {
	c.transport.Load().conns.closeAllWhenIdle()
}

// Hello opens a session. Later calls send the session's ID.
func (c *Client) Hello(ctx context.Context, in Hello) (HelloAnswer, error) {
	var out HelloAnswer
	if err := c.call(ctx, PathHello, in, &out); err != nil {
		return out, err
	}
	c.session.Store(&out.Session)
	c.clock.update(out.At)
	return out, nil
}

// Now returns the portal's estimated time, or this machine's time until the portal has sent a time.
func (c *Client) Now() time.Time { return c.clock.now() }

// ClockOffset returns how far this machine's clock differs from the portal's, as an absolute value. ok is false until the
// portal has sent a time.
func (c *Client) ClockOffset() (off time.Duration, ok bool) { return c.clock.offset() }

// Renew requests the next certificate.
func (c *Client) Renew(ctx context.Context, in RenewRequest) (Certificate, error) {
	var out Certificate
	err := c.call(ctx, PathRenew, in, &out)
	return out, err
}

// Report sends the host's state or a heartbeat. It sets the report's Stamp. The portal computes from it when the
// report was sent.
func (c *Client) Report(ctx context.Context, in Report) (ReportAnswer, error) {
	var out ReportAnswer
	in.Stamp = c.clock.stamp()
	err := c.call(ctx, PathReport, in, &out)
	if err == nil {
		c.clock.update(out.At)
	}
	return out, err
}

// Claim waits for jobs. If it returns neither a job nor an error, the caller claims again. Other calls may use the
// claim's connection meanwhile; Claim then repeats its request.
func (c *Client) Claim(ctx context.Context, in ClaimRequest) (Claim, error) {
	for {
		out, err := c.claimOnce(ctx, in)
		if !errors.Is(err, errPreempted) {
			return out, err
		}
	}
}

func (c *Client) claimOnce(ctx context.Context, in ClaimRequest) (out Claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.claimLimit)
	defer cancel()
	return out, c.do(ctx, PathClaim, in, &out)
}

// GuestSecret fetches the guest's secret for a job of this host.
func (c *Client) GuestSecret(ctx context.Context, id fleet.JobID) (GuestSecret, error) {
	var out GuestSecret
	err := c.call(ctx, PathJobs+url.PathEscape(string(id))+"/secret", struct{}{}, &out)
	return out, err
}

// PoolSecret fetches the secret of a pool assigned to this host.
func (c *Client) PoolSecret(ctx context.Context, id fleet.PoolID) (PoolSecret, error) {
	var out PoolSecret
	err := c.call(ctx, PathPools+url.PathEscape(string(id))+"/secret", struct{}{}, &out)
	return out, err
}

// FirstBoot fetches the first-boot files of a VM on this host. ref identifies the VM's first-boot data, as in its spec.
func (c *Client) FirstBoot(ctx context.Context, id fleet.VMID, ref fleet.VMFirstBoot) (FirstBoot, error) {
	var out FirstBoot
	err := c.call(ctx, PathFirstBoots+url.PathEscape(string(id)), FirstBootRequest{ref}, &out)
	return out, err
}

// Progress reports the progress of a job.
func (c *Client) Progress(ctx context.Context, id fleet.JobID, in Progress) (ProgressAnswer, error) {
	var out ProgressAnswer
	err := c.call(ctx, PathJobs+url.PathEscape(string(id))+"/progress", in, &out)
	return out, err
}

// ReportHealth reports what the health checks of this host have found.
func (c *Client) ReportHealth(ctx context.Context, in healthevent.Report) error {
	return c.call(ctx, PathHealth, in, nil)
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
		req.Header.Set(SharedConnHeader, "1")
	}
	got, err := c.transport.Load().conns.send(ctx, req, claim)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return got.decodeInto(out)
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

// answer is a complete answer of the portal.
type answer struct {
	status int
	body   []byte
	last   bool // the portal closes the connection after this answer
}

// decodeInto decodes the body into out, unless out is nil. A status other than 2xx becomes an *Error.
func (a answer) decodeInto(out any) error {
	switch {
	case a.status/100 != 2:
		return portalError(a.status, bytes.NewReader(a.body))
	case out == nil || len(a.body) == 0:
		return nil
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		return fmt.Errorf("read the portal's answer: %w", err)
	}
	return nil
}
