// Package load puts load on a running portal as a real fleet would: simulated hosts use the agent protocol over mutual
// TLS, simulated users open pages, and browser tabs follow live pages. It reports the portal's performance, so that an
// operator can choose the size of a portal. Only the hypervisors are simulated.
// Hosts join with join tokens. VMs and pools are created with an API token. Each host completes its jobs and sends
// reports at the real interval, with a meter and metric values for each running VM. At the end, the run removes everything that it
// created.
package load

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

// Options configures a run.
type Options struct {
	Portal string         // URL of pages and API: "https://quantix.example.org"
	Token  string         // an administrator's API token
	Agents string         // URL of the agent listener; empty: the URL in the portal's join tokens
	Roots  *x509.CertPool // CAs to trust for Portal; nil: the CAs of the system

	// Numbers of objects. VMs are distributed evenly over the hosts, and their disks over the pools. Each pool is on
	// all hosts.
	Hosts, VMs, Pools int
	Change            float64       // number of VM changes per second
	Tabs              int           // browser tabs on the VM list
	People            int           // number of users who open one page after another
	Pause             time.Duration // pause of a user between two pages
	For               time.Duration // duration of the measurement

	// WithoutSamples leaves out the metric values of reports. The difference of two runs is the cost of metrics.
	WithoutSamples bool

	// Joined are hosts that joined before the run, with their VMs. The run then creates and removes only users.
	Joined []Host

	AllowUsed   bool // run even if the portal has hosts that the run did not create
	Keep        bool // do not remove what the run created
	SkipCleanup bool // do not clean up, because the portal is discarded after the run
	// Database is the URL of the portal's database. VMs are then written directly into the database instead of being
	// created through the API. See seedVMs.
	Database string

	Portals, Postgres Processes // processes whose CPU and memory are measured; nil: none

	Out    io.Writer     // progress as text; nil: none
	Report time.Duration // interval of progress lines
}

// Host is a joined host with its credentials.
type Host struct {
	ID          fleet.HostID
	Name        string
	Certificate tls.Certificate
	CA          *x509.CertPool
}

// Limits of concurrency while a run is prepared and cleaned up.
const (
	joinConcurrency = 16
	apiConcurrency  = 8                // the portal serves at most this many requests of one user at a time
	requestTimeout  = 30 * time.Second // timeout of one request
)

type loadRun struct {
	o     Options
	name  string // prefix of all names that the run creates
	api   *client.Client
	plain *http.Transport // connections of the API client; tabs and simulated users have their own connections
	failureCounts
	counts

	mu      sync.Mutex
	agents  []*agent
	byHost  map[fleet.HostID]*agent
	parked  sync.WaitGroup
	created createdObjects
}

// Run puts load on the portal and returns the figures. It also cleans up after an error and when ctx ends.
func Run(ctx context.Context, o Options) (out Figures, err error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	o.Report = cmp.Or(o.Report, 5*time.Second)
	o.Pause = cmp.Or(o.Pause, time.Second)
	switch {
	case o.Hosts < 1 && len(o.Joined) == 0:
		return out, errors.New("a load run needs at least one host")
	// The negation also refuses NaN.
	case min(o.VMs, o.Pools, o.Tabs, o.People) < 0 || !(o.Change >= 0) || min(o.Pause, o.For) < 0:
		return out, errors.New("a load run takes no negative numbers or durations")
	}
	if err := checkOpenFileLimit(2*max(o.Hosts, len(o.Joined)) + 2*o.Tabs + 2*o.People + 200); err != nil {
		return out, err
	}
	r := &loadRun{o: o, name: "load-" + strings.ToLower(rand.Text()[:6]), byHost: map[fleet.HostID]*agent{}}
	r.plain = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.Roots}, MaxIdleConnsPerHost: apiConcurrency, ForceAttemptHTTP2: true}
	defer r.plain.CloseIdleConnections()
	if r.api, err = client.New(o.Portal, o.Token, &http.Client{Transport: r.plain, Timeout: requestTimeout}); err != nil {
		return out, err
	}
	if err := r.checkPortal(ctx); err != nil {
		return out, err
	}
	// The hosts must outlive ctx, because they execute the jobs of the cleanup.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer r.parked.Wait()
	defer end()
	defer func() { err = errors.Join(err, r.cleanUp(context.WithoutCancel(ctx), end)) }()
	if err := r.createFleet(ctx, life); err != nil {
		return out, err
	}
	return r.measure(ctx)
}

// checkPortal returns an error if the token has no administrator rights, or if the portal has other hosts and AllowUsed
// is not set.
func (r *loadRun) checkPortal(ctx context.Context) error {
	me, err := r.api.Me(ctx)
	if err != nil {
		return fmt.Errorf("read the API token's user from the portal at %s: %w", r.o.Portal, err)
	}
	if me.Role != fleet.RoleAdmin {
		return fmt.Errorf("the API token belongs to %s, who is no administrator: use an administrator's token, which may create hosts and users", me.Name)
	}
	if r.o.AllowUsed || len(r.o.Joined) > 0 {
		return nil
	}
	hosts, err := r.api.Hosts(ctx, fleet.Query{Limit: 1})
	if err != nil {
		return err
	}
	if len(hosts.Items) > 0 {
		return fmt.Errorf("this portal already has hosts (%s), and a load run would disturb its users: use an empty portal, or --into-used-portal", hosts.Items[0].Name)
	}
	return nil
}

// progress prints one line of progress, with the time.
func (r *loadRun) progress(format string, args ...any) {
	fmt.Fprintf(r.o.Out, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// forEach calls do for the numbers below n, with at most atOnce calls at the same time. It stops at the first error and
// returns it.
func forEach(ctx context.Context, n, atOnce int, do func(context.Context, int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for range min(n, atOnce) {
		all.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// pause sleeps. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// poll calls done until it returns true or an error. After the time limit it returns an error. what describes the
// awaited state in that error.
func poll(ctx context.Context, what string, limit time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: timed out after %s", what, limit))
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
