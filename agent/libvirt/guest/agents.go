// Package guest queries guests: their guest agents (Agents), the addresses of their NICs, and the ports and programs of
// health checks. A guest can hang or send any answer, so every call has a time limit and a maximum size.
package guest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/watch"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

const (
	guestQueryInterval = 30 * time.Second // interval of the queries of a guest
	agentAnswerTimeout = 5 * time.Second  // time limit of one answer of the guest agent
	guestQueryTimeout  = 25 * time.Second // time limit of all commands of one query
	maxGuestBackoff    = 5 * time.Minute  // longest interval of the queries of a guest that does not answer
	maxGuestQueries    = 4
)

// Agents caches the reports of running guests' agents. It queries the guests in the background, at most maxGuestQueries
// at a time. A guest that hangs is queried less and less often and does not delay other guests.
type Agents struct {
	daemon *conn.Daemon
	log    *slog.Logger
	read   DomainReader

	programs     checkPrograms
	addressWatch watch.Value[map[fleet.VMID]NICAddresses]
	arpHistory   arpHistory

	mu             sync.Mutex
	all            map[fleet.VMID]*guestRun
	runningQueries int // number of running queries
}

// NewAgents returns the guest agents of the daemon's guests. read reads one domain.
func NewAgents(daemon *conn.Daemon, log *slog.Logger, read DomainReader) *Agents {
	return &Agents{daemon: daemon, log: log, read: read}
}

// guestRun is the state of one run of one guest.
type guestRun struct {
	domainRunID int32 // libvirt's domain ID of the run
	querying    bool
	dueAt       time.Time
	backoff     time.Duration // current backoff; 0: the guest answers
	answeredAt  time.Time     // time of the last answer; zero: none
	managed     bool
	status      fleet.GuestStatus
	reading     fleet.GuestReading
	nics        NICAddresses
}

// StartDueQueries starts the queries of all guests whose next query is due. It does not wait for the queries.
func (as *Agents) StartDueQueries(all []Domain) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.all == nil {
		as.all = map[fleet.VMID]*guestRun{}
	}
	on := make(map[fleet.VMID]bool, len(all))
	now := time.Now()
	for _, s := range all {
		if s.Live == nil || !s.AgentConnected {
			continue
		}
		on[s.ID] = true
		seen := as.all[s.ID]
		if seen == nil || seen.domainRunID != s.Ref.ID {
			seen = &guestRun{domainRunID: s.Ref.ID, managed: s.Managed, status: fleet.GuestStatus{Agent: fleet.AgentNotResponding}}
			as.all[s.ID] = seen
		}
		if seen.querying || now.Before(seen.dueAt) || as.runningQueries >= maxGuestQueries || s.State != golibvirt.DomainRunning {
			continue
		}
		seen.querying = true
		as.runningQueries++
		go as.queryGuest(s, seen)
	}
	for id, seen := range as.all {
		if !on[id] && !seen.querying {
			delete(as.all, id)
		}
	}
}

// queryGuest queries one guest and stores its answers.
func (as *Agents) queryGuest(s Domain, seen *guestRun) {
	ctx, cancel := context.WithTimeout(as.daemon.RunContext, guestQueryTimeout)
	defer cancel()
	begun := time.Now()
	next := guestRun{status: seen.status, reading: fleet.GuestReading{ID: s.ID}}
	c, err := as.daemon.Dial(ctx)
	if err == nil {
		err = next.queryGuest(ctx, c, s)
		c.Disconnect()
	}
	as.mu.Lock()
	as.runningQueries--
	seen.querying = false
	was := seen.status
	switch {
	// libvirtd is unreachable, so the guest's last known status remains
	case errors.Is(err, hypervisor.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded):
		seen.dueAt = begun.Add(agentAnswerTimeout)
	case err != nil:
		as.log.Debug("a guest's agent does not answer", "vm", s.Ref.Name, "error", err)
		seen.backoff = min(max(2*seen.backoff, guestQueryInterval), maxGuestBackoff)
		seen.dueAt, seen.status = time.Now().Add(seen.backoff), fleet.GuestStatus{Agent: fleet.AgentNotResponding}
		seen.answeredAt, seen.nics = time.Time{}, nil
	default:
		seen.backoff, seen.dueAt, seen.status = 0, begun.Add(guestQueryInterval), next.status
		if !next.status.Frozen { // a frozen guest answers no other command
			seen.answeredAt, seen.reading, seen.nics = begun, next.reading, next.nics
		}
	}
	changed := seen.status != was
	as.mu.Unlock()
	if changed {
		as.daemon.Subscribers.WakeAll()
	}
}

// queryGuest queries the agent of a guest that may be unmanaged. Values that the agent does not report stay empty. It
// fails if the agent does not answer.
func (n *guestRun) queryGuest(ctx context.Context, c *conn.Conn, s Domain) error {
	if !s.Managed { // unmanaged guests are only queried for addresses, with libvirt's own call
		found, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.DomainInterface, error) {
			return l.DomainInterfaceAddresses(s.Ref, uint32(golibvirt.DomainInterfaceAddressesSrcAgent), 0)
		})
		n.nics = NICAddresses{}
		n.nics.addSource(found, fleet.FromAgent)
		n.status = fleet.GuestStatus{}
		return err
	}
	return n.queryAgent(newAgentCaller(ctx, c, s))
}

// queryAgent queries the agent of a managed VM. It fails if the agent does not answer.
func (n *guestRun) queryAgent(ask agentCaller) error {
	info, err := callAgent[struct {
		Version string `json:"version"`
	}](ask, agentAnswerTimeout, "guest-info", nil)
	if err != nil {
		return err
	}
	n.status.Agent, n.status.Version = fleet.AgentAnswers, guestText(info.Version)
	frozen, err := callAgent[string](ask, agentAnswerTimeout, "guest-fsfreeze-status", nil)
	if errors.Is(err, errNoAnswer) {
		return err
	}
	if n.status.Frozen = frozen == "frozen"; n.status.Frozen {
		return nil
	}
	for _, read := range []func(agentCaller) error{n.readSystem, n.readHostName, n.readNICs, n.readFileSystems, n.readUsers, n.readClock} {
		if err := read(ask); errors.Is(err, errNoAnswer) || errors.Is(err, hypervisor.ErrUnreachable) {
			return err
		}
	}
	return nil
}

func (n *guestRun) readSystem(ask agentCaller) error {
	os, err := callAgent[struct {
		Pretty  string `json:"pretty-name"`
		Name    string `json:"name"`
		Version string `json:"version"`
		Kernel  string `json:"kernel-release"`
	}](ask, agentAnswerTimeout, "guest-get-osinfo", nil)
	n.status.OS = guestText(cmp.Or(os.Pretty, strings.TrimSpace(os.Name+" "+os.Version)))
	n.status.Kernel = guestText(os.Kernel)
	return err
}

func (n *guestRun) readHostName(ask agentCaller) error {
	host, err := callAgent[struct {
		Name string `json:"host-name"`
	}](ask, agentAnswerTimeout, "guest-get-host-name", nil)
	n.status.Hostname = guestText(host.Name)
	return err
}

func (n *guestRun) readNICs(ask agentCaller) error {
	answer, err := callAgent[[]struct {
		MAC       string `json:"hardware-address"`
		Addresses []struct {
			IP string `json:"ip-address"`
		} `json:"ip-addresses"`
	}](ask, agentAnswerTimeout, "guest-network-get-interfaces", nil)
	n.nics = NICAddresses{}
	for _, iface := range answer[:min(len(answer), maxGuestNICs)] {
		mac, wrong := net.ParseMAC(iface.MAC)
		if wrong != nil {
			continue
		}
		for _, a := range iface.Addresses {
			if ip := net.ParseIP(a.IP); ip != nil && ip.IsGlobalUnicast() {
				n.nics.addAddress(mac.String(), ip.String(), fleet.FromAgent)
			}
		}
	}
	return err
}

// maxGuestNICs limits the NICs read from one guest.
const maxGuestNICs = 256

func (n *guestRun) readFileSystems(ask agentCaller) error {
	answer, err := callAgent[[]struct {
		Path  string  `json:"mountpoint"`
		Type  string  `json:"type"`
		Used  float64 `json:"used-bytes"`
		Total float64 `json:"total-bytes"`
	}](ask, agentAnswerTimeout, "guest-get-fsinfo", nil)
	for _, f := range answer {
		one := fleet.GuestFileSystem{Path: guestText(f.Path), Type: guestText(f.Type), UsedBytes: guestBytes(f.Used), TotalBytes: guestBytes(f.Total)}
		known := slices.ContainsFunc(n.reading.FileSystems, func(o fleet.GuestFileSystem) bool { return o.Path == one.Path })
		if one.Path != "" && !known && len(n.reading.FileSystems) < fleet.MaxGuestFileSystems {
			n.reading.FileSystems = append(n.reading.FileSystems, one)
		}
	}
	slices.SortFunc(n.reading.FileSystems, func(a, b fleet.GuestFileSystem) int { return cmp.Compare(a.Path, b.Path) })
	return err
}

func (n *guestRun) readUsers(ask agentCaller) error {
	answer, err := callAgent[[]struct {
		User   string `json:"user"`
		Domain string `json:"domain"`
	}](ask, agentAnswerTimeout, "guest-get-users", nil)
	for _, u := range answer {
		one := fleet.GuestUser{Name: guestText(u.User), Domain: guestText(u.Domain)}
		if one.Name != "" && !slices.Contains(n.reading.Users, one) && len(n.reading.Users) < fleet.MaxGuestUsers {
			n.reading.Users = append(n.reading.Users, one)
		}
	}
	slices.SortFunc(n.reading.Users, func(a, b fleet.GuestUser) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Domain, b.Domain))
	})
	return err
}

// readClock compares the guest's clock with the host's clock at the middle of the call.
func (n *guestRun) readClock(ask agentCaller) error {
	sent := time.Now()
	nanos, err := callAgent[int64](ask, agentAnswerTimeout, "guest-get-time", nil)
	if err != nil {
		return err
	}
	ahead := nanos/1e6 - sent.Add(time.Since(sent)/2).UnixMilli()
	n.reading.ClockBehind = ahead < 0
	n.reading.ClockMs = max(ahead, -ahead)
	return nil
}

// guestText sanitizes and shortens a text from the guest.
func guestText(text string) string { return wire.SanitizeLine(text, fleet.MaxGuestText) }

// guestBytes limits a byte count from the guest to the range from 0 to 2^53.
func guestBytes(n float64) int64 { return int64(min(max(n, 0), 1<<53)) }

// StatusOf returns the guest's status, or nil if the guest is off or unmanaged.
func (as *Agents) StatusOf(s Domain) *fleet.GuestStatus {
	switch {
	case s.Live == nil || !s.Managed:
		return nil
	case s.Live.FieldValues.Devices.GuestAgent == "none":
		return &fleet.GuestStatus{Agent: fleet.AgentNone}
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	out := fleet.GuestStatus{Agent: fleet.AgentNotResponding}
	if seen := as.all[s.ID]; seen != nil && seen.domainRunID == s.Ref.ID && s.AgentConnected {
		out = seen.status
	}
	return &out
}

// nicAddressesOf returns the addresses that the guest agent reported in the guest's current run, or nil.
func (as *Agents) nicAddressesOf(s Domain) NICAddresses {
	as.mu.Lock()
	defer as.mu.Unlock()
	if seen := as.all[s.ID]; seen != nil && seen.domainRunID == s.Ref.ID && s.AgentConnected {
		return seen.nics
	}
	return nil
}

// updateStatus updates the cached status after a job, and makes the next query due at once.
func (as *Agents) updateStatus(s Domain, change func(*fleet.GuestStatus)) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if seen := as.all[s.ID]; seen != nil && seen.domainRunID == s.Ref.ID {
		change(&seen.status)
		seen.dueAt = time.Time{}
	}
}

// GuestReadings implements hypervisor.Guests.
func (as *Agents) GuestReadings(ctx context.Context) ([]hypervisor.GuestReading, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	var out []hypervisor.GuestReading
	for _, seen := range as.all {
		if seen.managed && !seen.answeredAt.IsZero() {
			out = append(out, hypervisor.GuestReading{GuestReading: seen.reading, At: seen.answeredAt})
		}
	}
	slices.SortFunc(out, func(a, b hypervisor.GuestReading) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
