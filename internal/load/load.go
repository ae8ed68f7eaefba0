// Package load drives a running portal as a fleet would: simulated hosts over the agents' own protocol and mutual TLS, people who open
// pages, and browser tabs that follow them. It tells what the portal managed, so that an operator can size one.
//
// Only the hypervisors are made up. Hosts join with tokens, VMs and pools are what a person with an API token asks for, each host carries out
// the jobs that it is given and reports in the real period with a meter for each VM that runs, and all of it is taken away at the end.
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

// Options say what a run is made of.
type Options struct {
	Portal string         // where browsers and the API are: "https://quantix.example.org"
	Token  string         // an administrator's API token
	Agents string         // where agents are; empty: where the portal's join tokens say
	Roots  *x509.CertPool // whom to trust for Portal; nil: the system's

	Hosts, VMs, Pools int           // how many; VMs are spread evenly, and have their disks in the pools, which are on all hosts
	Change            float64       // how many VMs change what they report each second
	Tabs              int           // browser tabs on the VM list
	People            int           // who open one page after the other
	Pause             time.Duration // of a person between two pages
	For               time.Duration // how long it is measured

	// Joined are hosts that are there already, with their VMs: then none is made, and nothing is taken away at the end but people.
	Joined []Host

	IntoUsed bool   // go on where the portal has hosts of somebody else's
	Keep     bool   // leave what was made
	Doomed   bool   // the portal goes with all that was made, so nothing needs to be taken away
	Database string // of the portal: VMs are written there at once, instead of being asked for one by one. See seed

	Portals, Postgres Processes // what to measure the CPU and memory of; nil: nothing

	Out    io.Writer     // progress for people; nil: none
	Report time.Duration // how often
}

// Host is a joined host: who it is, and by what it proves that.
type Host struct {
	ID          fleet.HostID
	Name        string
	Certificate tls.Certificate
	CA          *x509.CertPool
}

// Most that goes on at once while a run is made ready and taken away.
const (
	joining = 16
	asking  = 8                // the portal answers no more of one person at a time
	patient = 30 * time.Second // for one answer
)

type run struct {
	o     Options
	name  string // of everything that it makes begins so
	api   *client.Client
	plain *http.Transport // of everything but tabs and people
	faults
	counts

	mu     sync.Mutex
	agents []*agent
	byHost map[fleet.HostID]*agent
	parked sync.WaitGroup
	made   made
}

// Run loads the portal and says how that went. Where it fails or ctx ends, what it has made is taken away all the same.
func Run(ctx context.Context, o Options) (out Figures, err error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	o.Report = cmp.Or(o.Report, 5*time.Second)
	o.Pause = cmp.Or(o.Pause, time.Second)
	switch {
	case o.Hosts < 1 && len(o.Joined) == 0:
		return out, errors.New("a load needs at least one host")
	case min(o.VMs, o.Pools, o.Tabs, o.People) < 0 || !(o.Change >= 0) || min(o.Pause, o.For) < 0: // NaN is no number of changes
		return out, errors.New("a load's numbers and times are no less than 0")
	}
	if err := enoughFiles(2*max(o.Hosts, len(o.Joined)) + 2*o.Tabs + 2*o.People + 200); err != nil {
		return out, err
	}
	r := &run{o: o, name: "load-" + strings.ToLower(rand.Text()[:6]), byHost: map[fleet.HostID]*agent{}}
	r.plain = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.Roots}, MaxIdleConnsPerHost: asking, ForceAttemptHTTP2: true}
	defer r.plain.CloseIdleConnections()
	if r.api, err = client.New(o.Portal, o.Token, &http.Client{Transport: r.plain, Timeout: patient}); err != nil {
		return out, err
	}
	if err := r.look(ctx); err != nil {
		return out, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // hosts are needed for what they have to be taken away
	defer r.parked.Wait()
	defer end()
	defer func() { err = errors.Join(err, r.takeAway(context.WithoutCancel(ctx), end)) }()
	if err := r.furnish(ctx, life); err != nil {
		return out, err
	}
	return r.measure(ctx)
}

// look refuses a portal that is at work, unless that is meant.
func (r *run) look(ctx context.Context) error {
	me, err := r.api.Me(ctx)
	if err != nil {
		return fmt.Errorf("ask the portal at %s who the token's owner is: %w", r.o.Portal, err)
	}
	if me.Role != fleet.RoleAdmin {
		return fmt.Errorf("the token is %s's, who is no administrator: hosts and users cannot be made with it", me.Name)
	}
	if r.o.IntoUsed || len(r.o.Joined) > 0 {
		return nil
	}
	hosts, err := r.api.Hosts(ctx, fleet.Query{Limit: 1})
	if err != nil {
		return err
	}
	if len(hosts.Items) > 0 {
		return fmt.Errorf("this portal has hosts already (%s): a load would be in the way of those who work with it. Take an empty one, or say --into-used-portal", hosts.Items[0].Name)
	}
	return nil
}

// say tells people how far it is.
func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.o.Out, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// each does the numbers below n, so many at once, until one fails.
func each(ctx context.Context, n, atOnce int, do func(context.Context, int) error) error {
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

// pause sleeps; false: ctx ended first.
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

// poll asks until it is so, and fails at the limit.
func poll(ctx context.Context, what string, limit time.Duration, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not within %s", what, limit))
	defer cancel()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		if !pause(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
