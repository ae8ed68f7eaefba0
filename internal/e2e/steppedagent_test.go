//go:build linux && ordeal

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quantix/agent"
	"quantix/agent/hypervisor"
	"quantix/agent/migration"
	"quantix/agent/mock"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// steppedAgent is the real agent of a simulated host. It runs in the process of the test, and can be killed at each step
// of a migration. A later process continues with the files on the disk at the time of the kill.
type steppedAgent struct {
	pair    *steppedPair
	role    string // source or target
	id      fleet.HostID
	host    *mock.Host
	dir     string // data directory of the current process
	starts  int
	process *agentProcess
}

// agentProcess is the hypervisor of one process of a steppedAgent. Each step of a migration calls step. After a kill, the
// process changes nothing: its goroutines end at their next step.
type agentProcess struct {
	*mock.Host
	of      *steppedAgent
	killing sync.Once
	killed  atomic.Bool
	proxy   *cutProxy
	stop    context.CancelFunc
}

// start runs a process of the agent.
func (a *steppedAgent) start() {
	p := a.pair
	r := &agentProcess{Host: a.host, of: a, proxy: newCutProxy(p.t, p.portal.agentURL)}
	a.process = r
	if p.isPortalAway() {
		r.proxy.pause()
	}
	identity, err := agent.OpenIdentity(a.dir)
	if err != nil {
		p.t.Error(err)
		return
	}
	client, err := identity.Client(r.proxy.url)
	if err != nil {
		p.t.Error(err)
		return
	}
	run, err := agent.New(agent.Options{
		Identity: identity, Client: client, Hypervisor: r, Inventory: a.host.Inventory, NICs: a.host.NICs, Load: a.host.Load, Memory: a.host.Memory, Version: "1.0", Ports: p.ports,
	})
	if err != nil {
		p.t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	p.running.Go(func() {
		defer identity.Close()
		defer client.Close()
		if err := run.Run(ctx); err != nil {
			p.t.Error(err)
		}
	})
}

// kill ends the process like SIGKILL. The agent's next process gets copies of the files on the disk, with the same key file.
func (r *agentProcess) kill() { r.killing.Do(r.killNow) }

// killNow is kill, once.
func (r *agentProcess) killNow() {
	r.killed.Store(true)
	r.proxy.pause()
	r.proxy.cut()
	a := r.of
	a.starts++
	next := fmt.Sprintf("%s-%d", a.dir, a.starts)
	if err := copyAgentFiles(next, a.dir); err != nil {
		a.pair.t.Error(err)
	}
	a.dir = next
	if err := a.pair.cutConnections(); err != nil {
		a.pair.t.Error(err)
	}
	r.stop()
}

// copyAgentFiles copies a data directory. The key's file stays the same file, because a copy counts as another host's.
func copyAgentFiles(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	key := filepath.Join(to, "host.key")
	if err := os.Remove(key); err != nil {
		return err
	}
	return os.Link(filepath.Join(from, "host.key"), key)
}

// step marks a step of the migration. It injects the pair's fault at its step, and ends the goroutine of a killed process.
func (r *agentProcess) step(name string) {
	r.end()
	r.of.pair.reach(r, name)
	r.end()
}

// end ends the goroutine if the process was killed.
func (r *agentProcess) end() {
	if r.killed.Load() {
		runtime.Goexit()
	}
}

// around calls do between two steps.
func (r *agentProcess) around(name string, do func() error) error {
	r.step("before " + name)
	err := do()
	r.step("after " + name)
	return err
}

// steppedPercents are the percentages of progress that are steps.
var steppedPercents = []int{0, 50}

func (r *agentProcess) steppedProgress(name string, report hypervisor.Progress) hypervisor.Progress {
	return func(percent int, note string) {
		r.end()
		if slices.Contains(steppedPercents, percent) {
			r.step(fmt.Sprintf("%s at %d %%", name, percent))
		}
		report(percent, note)
	}
}

func (r *agentProcess) MigrateRunningVM(ctx context.Context, in hypervisor.LiveMigrationWork) error {
	connect, record, await := in.Connect, in.RecordBegin, in.AwaitTarget
	in.Connect = func(ctx context.Context) (out *migration.Link, err error) {
		err = r.around("the connection", func() error {
			link, err := connect(ctx)
			if err == nil {
				out = r.relay(link, migration.Source)
			}
			return err
		})
		return out, err
	}
	in.RecordBegin = func() error { return r.around("the record of the begin", record) }
	in.AwaitTarget = func(ctx context.Context) (arrived bool, err error) {
		err = r.around("the wait for the target", func() (err error) { arrived, err = await(ctx); return err })
		return arrived, err
	}
	in.Progress = r.steppedProgress("progress", in.Progress)
	return r.around("the migration", func() error { return r.Host.MigrateRunningVM(ctx, in) })
}

func (r *agentProcess) ReceiveVM(ctx context.Context, in hypervisor.ReceiveVMWork) error {
	accept, begin, file, created, arrived := in.Accept, in.RecordBegin, in.RecordFile, in.CreatedFile, in.RecordArrived
	in.RecordArrived = func() error { return r.around("the record of the arrival", arrived) }
	in.Accept = func(ctx context.Context) (out *migration.Link, err error) {
		err = r.around("the connection", func() error {
			link, err := accept(ctx)
			if err == nil {
				out = r.relay(link, migration.Target)
			}
			return err
		})
		return out, err
	}
	in.RecordBegin = func() error { return r.around("the record of the begin", begin) }
	in.RecordFile = func(to fleet.Volref, text string) error {
		return r.around("the record of a file", func() error { return file(to, text) })
	}
	in.CreatedFile = func(to fleet.Volref) string { r.end(); return created(to) }
	in.Progress = r.steppedProgress("progress", in.Progress)
	return r.around("the reception", func() error { return r.Host.ReceiveVM(ctx, in) })
}

// liveMessageNames are the messages of the simulated hosts. The hosts send in turn, the source first.
var liveMessageNames = [...]string{"the offer", "the answer", "the end of the transfer", "the result"}

// relay returns a link to the simulated host, which has the role, that forwards the messages of link, each between two
// steps.
func (r *agentProcess) relay(link *migration.Link, role migration.Role) *migration.Link {
	r.of.pair.setLinked()
	near, far := net.Pipe()
	other := migration.Target
	if role == migration.Target {
		other = migration.Source
	}
	go func() {
		defer link.Close()
		own := migration.NewLink(far, other)
		defer own.Close()
		for n, name := range liveMessageNames {
			from, to := own, link
			if (n%2 == 0) != (role == migration.Source) {
				from, to = link, own
			}
			var m json.RawMessage
			if from.Receive(context.Background(), &m) != nil {
				return
			}
			if err := r.around(name, func() error { return to.Send(context.Background(), m) }); err != nil {
				return
			}
		}
		_ = own.Receive(context.Background(), &json.RawMessage{}) // until the host closes its link
	}()
	return migration.NewLink(near, role)
}

// steppedPieces are the numbers of the pieces of a disk that are steps; a simulated disk has ten and a rest.
var steppedPieces = []int{1, 5, 10}

func (r *agentProcess) MigrateVM(ctx context.Context, in hypervisor.MigrateVMWork) error {
	record, send, wait := in.RecordSending, in.Send, in.WaitArrived
	in.RecordSending = func(d fleet.TransferID, stamp string) error {
		return r.around("the record of a disk", func() error { return record(d, stamp) })
	}
	in.Send = func(ctx context.Context, d fleet.TransferID, pieces transfer.Pieces, size int64) error {
		stepped := func(ctx context.Context, do func(int64, []byte, int64) error) error {
			n := 0
			return pieces(ctx, func(at int64, block []byte, size int64) error {
				r.end()
				if n++; slices.Contains(steppedPieces, n) {
					r.step(fmt.Sprintf("piece %d of a disk", n))
				}
				return do(at, block, size)
			})
		}
		return r.around("the transfer of a disk", func() error { return send(ctx, d, stepped, size) })
	}
	in.WaitArrived = func(ctx context.Context) error {
		return r.around("the wait for the disks", func() error { return wait(ctx) })
	}
	return r.around("the migration", func() error { return r.Host.MigrateVM(ctx, in) })
}

func (r *agentProcess) ReceiveVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	receive, file, sums := in.Receive, in.RecordFile, in.RecordChecksums
	in.Receive = func(ctx context.Context, dst transfer.Sink, room int64) (out hypervisor.ReceivedFile, err error) {
		err = r.around("the transfer of a disk", func() (err error) { out, err = receive(ctx, dst, room); return err })
		return out, err
	}
	in.RecordFile = func(text string) error { return r.around("the record of a file", func() error { return file(text) }) }
	in.RecordChecksums = func(all ...hypervisor.VolumeChecksum) error {
		return r.around("the record of a checksum", func() error { return sums(all...) })
	}
	return r.around("the reception of a disk", func() error { return r.Host.ReceiveVolume(ctx, in) })
}

func (r *agentProcess) ApplyVM(ctx context.Context, in hypervisor.ApplyWork) error {
	return r.around("the definition of the VM", func() error { return r.Host.ApplyVM(ctx, in) })
}

func (r *agentProcess) DeleteVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return r.around("the deletion of a disk", func() error { return r.Host.DeleteVolume(ctx, in) })
}

// steppedPair is two hosts between which a VM migrates, and the fault at one step of the migration.
type steppedPair struct {
	t       *testing.T
	portal  *portal
	agents  [2]*steppedAgent
	ports   transfer.PortRange // for connections between the two hosts
	running sync.WaitGroup     // of all processes

	mu       sync.Mutex
	open     bool // steps count
	counts   map[string]int
	seen     []string
	streamed map[string]bool // steps with an open connection between the hosts
	at       string          // step of the fault; empty: none
	fault    migrationFault
	armed    *steppedAgent // is killed at its next step
	linked   bool          // the hosts of a live migration are connected
	injected chan struct{} // closed when the fault is over
	away     bool          // the portal is unreachable
}

// reach counts the step and injects the fault if this is its step.
func (p *steppedPair) reach(r *agentProcess, name string) {
	p.mu.Lock()
	if !p.open {
		p.mu.Unlock()
		return
	}
	name = r.of.role + ": " + name
	if p.counts[name]++; p.counts[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, p.counts[name])
	}
	p.seen = append(p.seen, name)
	p.streamed[name] = p.linked || strings.Contains(name, "piece")
	hit, armed := p.at == name, p.armed == r.of
	if hit {
		p.at = ""
	}
	if armed {
		p.armed = nil
	}
	p.mu.Unlock()
	switch {
	case hit:
		p.fault.inject(p, r)
	case armed:
		r.kill()
	}
}

func (p *steppedPair) isPortalAway() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away
}

func (p *steppedPair) setLinked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.linked = true
}

// cutConnections closes the connections between the hosts, in the kernel and thus for both ends, like a failed network.
func (p *steppedPair) cutConnections() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return err
		}
		own, err := syscall.Getsockname(fd)
		if err != nil {
			continue // no socket
		}
		port := 0
		switch at := own.(type) {
		case *syscall.SockaddrInet4:
			port = at.Port
		case *syscall.SockaddrInet6:
			port = at.Port
		}
		if _, err := syscall.Getpeername(fd); err == nil && port >= p.ports.First && port <= p.ports.Last {
			_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
		}
	}
	return nil
}

// migrationFault is a fault at one step of a migration. inject returns at once or when the fault is over, and closes
// injected then.
type migrationFault struct {
	name       string
	lasts      time.Duration
	cutsStream bool // needs a connection between the hosts
	inject     func(p *steppedPair, r *agentProcess)
}

// Times of faults. The portal's absence is longer than the lease of a job.
const (
	restartPause = 200 * time.Millisecond
	portalPause  = 2 * time.Second
	leasePause   = fleet.Lease + 5*time.Second
)

var migrationFaults = []migrationFault{
	{"a kill of the agent", restartPause, false, func(p *steppedPair, r *agentProcess) {
		r.kill()
		go p.restart(r.of)
	}},
	{"a kill of both agents", restartPause, false, func(p *steppedPair, r *agentProcess) {
		peer := p.peerOf(r.of)
		p.mu.Lock()
		p.armed = peer
		p.mu.Unlock()
		r.kill()
		go p.restart(peer, r.of)
	}},
	{"a cut of the stream", 0, true, func(p *steppedPair, _ *agentProcess) {
		if err := p.cutConnections(); err != nil {
			p.t.Error(err)
		}
		close(p.injected)
	}},
	{"an absence of the portal", portalPause, false, func(p *steppedPair, _ *agentProcess) { p.leavePortal(portalPause) }},
	{"an absence of the portal beyond the lease", leasePause, false, func(p *steppedPair, _ *agentProcess) { p.leavePortal(leasePause) }},
}

func (p *steppedPair) peerOf(a *steppedAgent) *steppedAgent {
	if a == p.agents[0] {
		return p.agents[1]
	}
	return p.agents[0]
}

// restart starts the next processes of killed agents. It kills an agent that reaches no step in time.
func (p *steppedPair) restart(all ...*steppedAgent) {
	time.Sleep(restartPause)
	p.mu.Lock()
	p.armed = nil
	p.mu.Unlock()
	for _, a := range all {
		a.process.kill()
		a.start()
	}
	close(p.injected)
}

// leavePortal makes the portal unreachable for both agents.
func (p *steppedPair) leavePortal(pause time.Duration) {
	p.setPortalAway(true)
	time.AfterFunc(pause, func() {
		p.setPortalAway(false)
		close(p.injected)
	})
}

func (p *steppedPair) setPortalAway(away bool) {
	p.mu.Lock()
	p.away = away
	p.mu.Unlock()
	for _, a := range p.agents {
		if away {
			a.process.proxy.pause()
			a.process.proxy.cut()
		} else {
			a.process.proxy.resume()
		}
	}
}
