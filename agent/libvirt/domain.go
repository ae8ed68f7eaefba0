package libvirt

import (
	"context"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// domainMaxAge is the maximum age of a cached definition. Most changes send an event, which removes the definition from
// the cache. A few changes, such as of a link state, send none. Changes of the persistent definition, such as of the
// vCPU count, are detected from libvirt's file of the definition.
const domainMaxAge = time.Minute

// domain is one domain of the host with the contents of its definitions.
type domain struct {
	ref               golibvirt.Domain // its ID is -1 while the domain is off
	id                fleet.VMID
	managed           bool // the definition has Quantix's metadata for this UUID
	metadata          domxml.QuantixMetadata
	ownershipMark     string                    // the VM's ownership mark: of the running guest, otherwise of the definition
	applied           *hypervisor.AppliedRecord // nil: an older agent recorded none
	drift             []fleet.Drift
	transient         bool             // the guest runs without a persistent definition
	specDisks         []specDisk       // the spec's disks that are in the definition
	live              *domxml.Hardware // nil while the domain is off
	persistent        domxml.Hardware  // the hardware at the next start
	pendingUnplugs    []fleet.PendingUnplug
	accelerator       string
	vnc               domxml.VNCEndpoint
	spice             bool              // the running guest has a SPICE display
	agentConnected    bool              // the guest agent is connected, or reachable over vsock
	cid               uint32            // vsock CID of the guest agent; 0: the agent is reached through libvirt
	launch            *fleet.LaunchInfo // of a running guest with encrypted memory
	startedAt         *time.Time
	run               string // identifies the guest's run; empty: the guest is off, or unknown
	readAt            time.Time
	snapshotTree      *hypervisor.SnapTree // snapshots of Quantix; nil: none
	snapshotReadError string               // why the snapshots are unknown; empty: the snapshots are known
	virshSnapshots    []string             // names of snapshots made with virsh
	readErr           error                // why the definition cannot be read; nil: the definition was read
	unmigratable      string               // why the definition of an adopted VM cannot go to another host; empty: it can
	definitionStamp   fileStamp            // of the persistent definition's file
}

// currentHardware returns the current hardware: of the running guest, otherwise of the definition.
func (d *domain) currentHardware() domxml.Hardware {
	if d.live != nil {
		return *d.live
	}
	return d.persistent
}

// allFiles returns all paths that the domain uses now, at its next start, or in its snapshots.
func (d *domain) allFiles() []string {
	all := d.persistent.AllFiles
	if d.live != nil {
		all = append(append([]string{}, all...), d.live.AllFiles...)
	}
	for _, h := range d.snapshotFiles() {
		all = append(slices.Clip(all), h.Path)
	}
	return all
}

// diskFiles returns the files of the domain's disks, now, at its next start, and in its snapshots.
func (d *domain) diskFiles() []domxml.DiskFile {
	all := d.persistent.DiskFiles
	if d.live != nil {
		all = slices.Concat(all, d.live.DiskFiles)
	}
	return slices.Concat(all, d.snapshotFiles())
}

// snapshotFiles returns the files of the VM's snapshots, including those outside its current backing chains.
func (d *domain) snapshotFiles() (out []domxml.DiskFile) {
	if d.snapshotTree == nil {
		return nil
	}
	for _, f := range d.snapshotTree.AllFiles() {
		out = append(out, domxml.DiskFile{Path: f, Opaque: !strings.HasSuffix(f, ".qcow2"), InChain: true})
	}
	return out
}

// domainCache caches parsed definitions until an event, a job or the guest's next run. It is safe for concurrent use.
type domainCache struct {
	mu            sync.Mutex
	all           map[golibvirt.UUID]*domain
	invalidations int // number of invalidations, so that store never stores a definition read before an invalidation
}

func (k *domainCache) invalidate(id golibvirt.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, id)
	k.invalidations++
}

func (k *domainCache) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
	k.invalidations++
}

// get returns the cached domain, or nil. A cached domain is valid if its run, name and definition file are unchanged
// and the entry is younger than domainMaxAge. The caller passes invalidations to store.
func (k *domainCache) get(ref golibvirt.Domain, file fileStamp) (d *domain, invalidations int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d = k.all[ref.UUID]
	if d != nil && d.ref == ref && d.definitionStamp == file && time.Since(d.readAt) < domainMaxAge {
		return d, k.invalidations
	}
	return nil, k.invalidations
}

// store stores the domain, unless an entry was invalidated after the call of get that returned invalidations.
func (k *domainCache) store(d *domain, invalidations int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.invalidations != invalidations {
		return
	}
	if k.all == nil {
		k.all = map[golibvirt.UUID]*domain{}
	}
	k.all[d.ref.UUID] = d
}

// keepOnly removes the domains that are not in all.
func (k *domainCache) keepOnly(all []observedDomain) {
	k.mu.Lock()
	defer k.mu.Unlock()
	here := make(map[golibvirt.UUID]bool, len(all))
	for _, s := range all {
		here[s.ref.UUID] = true
	}
	for id := range k.all {
		if !here[id] {
			delete(k.all, id)
		}
	}
}

// readDomain returns the domain from the cache, or reads its definitions. libvirt must have returned ref just before.
func (b *Backend) readDomain(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) (*domain, error) {
	file := fileStampAt(definitionFile(ref.Name))
	d, forgets := b.domains.get(ref, file)
	if d != nil {
		return d, nil
	}
	kept, err := conn.ReadDefinition(ctx, c, ref, golibvirt.DomainXMLInactive)
	if err != nil {
		return nil, err
	}
	d = &domain{
		ref: ref, id: conn.FormatUUID(ref.UUID), persistent: domxml.ReadHardware(kept), accelerator: kept.Type, readAt: time.Now(), definitionStamp: file,
	}
	d.metadata, d.managed = domxml.ReadQuantixMetadata(kept.Metadata)
	d.managed = d.managed && d.metadata.ID == d.id // a copy made by virt-clone has the original's metadata
	d.ownershipMark = d.metadata.OwnershipMark
	if ref.ID >= 0 {
		d.startedAt, d.run = b.guestStart(ref.Name)
	}
	if d.managed {
		d.computeDrift(kept, b.assignedPools.Lookup())
		if d.unmigratable, err = b.whyUnmigratable(ctx, c, d.applied, d.id, kept); err != nil {
			return nil, err
		}
		if d.snapshotTree, err = readSnapshotTree(d.id); err != nil {
			b.log.Warn("the record of a VM's snapshots cannot be read", "vm", d.id, "error", err)
			d.snapshotReadError = "The host cannot read its record of the VM's snapshots: " + err.Error()
		}
		switch d.virshSnapshots, err = virshSnapshotNames(ctx, c, ref); {
		case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain), err != nil && !conn.IsObjectError(err):
			return nil, err
		case err != nil:
			d.snapshotReadError = "The host cannot list the VM's snapshots in libvirt: " + err.Error()
		}
	}
	if ref.ID >= 0 {
		x, err := conn.ReadDefinition(ctx, c, ref, 0)
		if err != nil {
			return nil, err
		}
		if err := restoreSpecCPU(ctx, c, ref, x, kept); err != nil {
			return nil, err
		}
		live := domxml.ReadHardware(x)
		d.live, d.vnc, d.agentConnected, d.cid, d.accelerator = &live, domxml.VNCEndpointOf(x), domxml.HasConnectedAgent(x), domxml.AgentCIDOf(x), x.Type
		if d.applied != nil && kept.Devices != nil && x.Devices != nil {
			d.pendingUnplugs = reportUnplugs(pendingUnplugs(kept, x, domxml.NewDeviceNames(d.applied, b.assignedPools.Lookup(), kept), d.applied.Spec))
		}
		d.spice = domxml.HasSPICE(x)
		d.launch = b.readLaunchInfo(ctx, c, ref, x)
		running, _ := domxml.ReadQuantixMetadata(x.Metadata)
		d.ownershipMark = running.OwnershipMark
		persistent, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (int32, error) { return l.DomainIsPersistent(ref) })
		if err != nil {
			return nil, err
		}
		d.transient = persistent == 0
	}
	b.domains.store(d, forgets)
	return d, nil
}

// unreadableDomain returns a domain whose definition cannot be read. Only its name, state and owner are known.
func (b *Backend) unreadableDomain(ctx context.Context, c *conn.Conn, ref golibvirt.Domain, why error) *domain {
	d := &domain{ref: ref, id: conn.FormatUUID(ref.UUID), readErr: why}
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
		return l.DomainGetMetadata(ref, int32(golibvirt.DomainMetadataElement), golibvirt.OptString{domxml.MetadataNamespace}, golibvirt.DomainAffectCurrent)
	})
	if err == nil && xml.Unmarshal([]byte(text), &d.metadata) == nil {
		d.managed, d.ownershipMark = d.metadata.ID == d.id, d.metadata.OwnershipMark
	}
	return d
}

// computeDrift sets d.applied from Quantix's metadata, and computes the drift and the spec's disks from the persistent
// definition.
func (d *domain) computeDrift(kept *libvirtxml.Domain, volumes domxml.VolumeLookup) {
	d.applied = d.metadata.AppliedSpec()
	if d.applied != nil {
		*d.applied = d.applied.InRun(d.run)
		d.drift = d.applied.Drift(domxml.ReadDefinedSpec(kept, *d.applied, volumes))
	}
	d.specDisks = specDisks(kept, d.applied, volumes.VolumeAt)
}

// pendingName returns the name that the domain gets when it is next off, or "" if its name is final.
func (d *domain) pendingName() string {
	if d.applied != nil {
		return d.applied.PendingDomainName(d.ref.Name)
	}
	if d.metadata.Name != d.ref.Name {
		return d.metadata.Name
	}
	return ""
}

// definitionDir is libvirt's directory of QEMU domain definitions.
const definitionDir = "/etc/libvirt/qemu"

func definitionFile(name string) string { return filepath.Join(definitionDir, name+".xml") }

// fileStamp changes when a file is rewritten. It is zero if the file does not exist.
type fileStamp struct {
	changed time.Time
	size    int64
}

// fileStampAt returns the fileStamp of the file at the path.
func fileStampAt(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}

// observedDomain is a domain together with its current state.
type observedDomain struct {
	*domain
	state, reason int32
}

// readDomains returns all domains of the host. It reads all states in one call, and the definitions that are not
// cached.
func (b *Backend) readDomains(ctx context.Context, c *conn.Conn) ([]observedDomain, error) {
	stats, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.DomainStatsRecord, error) {
		return l.ConnectGetAllDomainStats(nil, uint32(golibvirt.DomainStatsState), uint32(golibvirt.ConnectGetAllDomainsStatsNowait))
	})
	if err != nil {
		return nil, err
	}
	all := make([]observedDomain, len(stats))
	var g errgroup.Group
	g.SetLimit(4) // libvirtd handles five calls of a connection at once
	for i, s := range stats {
		p := numericParams(s.Params)
		all[i] = observedDomain{state: int32(p[golibvirt.DomainStatsStateState]), reason: int32(p[golibvirt.DomainStatsStateReason])}
		g.Go(func() error {
			d, err := b.readDomain(ctx, c, s.Dom)
			switch {
			case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
				return nil // undefined after it was listed
			case conn.IsObjectError(err):
				d, err = b.unreadableDomain(ctx, c, s.Dom, err), nil
			}
			all[i].domain = d
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	here := all[:0]
	for _, s := range all {
		if s.domain != nil {
			here = append(here, s)
		}
	}
	b.domains.keepOnly(here)
	b.ioErrors.keepOnly(here)
	b.watchdogs.keepOnly(here)
	b.agents.KeepProgramsOf(guestDomainsOf(here))
	return here, nil
}

// numericParams returns the numeric typed parameters by name.
func numericParams(all []golibvirt.TypedParam) map[string]int64 {
	out := make(map[string]int64, len(all))
	for _, p := range all {
		switch v := p.Value.I.(type) {
		case int32:
			out[p.Field] = int64(v)
		case uint32:
			out[p.Field] = int64(v)
		case int64:
			out[p.Field] = v
		case uint64:
			out[p.Field] = int64(v)
		}
	}
	return out
}

func textParams(all []golibvirt.TypedParam) map[string]string {
	out := map[string]string{}
	for _, p := range all {
		if text, ok := p.Value.I.(string); ok {
			out[p.Field] = text
		}
	}
	return out
}

// restoreSpecCPU replaces the CPU of the live definition with the CPU as defined at the guest's start. libvirt expands
// the CPU in a live definition to the host's model and every feature of the guest. The migratable definition still has
// the original. live and kept are the guest's running and persistent definitions.
func restoreSpecCPU(ctx context.Context, c *conn.Conn, ref golibvirt.Domain, live, kept *libvirtxml.Domain) error {
	if domxml.IsSameCPU(live, kept) {
		return nil
	}
	migratable, err := conn.ReadDefinition(ctx, c, ref, golibvirt.DomainXMLMigratable)
	if err != nil || migratable.CPU == nil {
		return err
	}
	if live.CPU == nil {
		live.CPU = &libvirtxml.DomainCPU{}
	}
	live.CPU.Mode, live.CPU.Model, live.CPU.Features = migratable.CPU.Mode, migratable.CPU.Model, migratable.CPU.Features
	return nil
}

// findLostGuest returns the process ID of the guest's QEMU and libvirt's status file if QEMU runs although libvirt
// reports the guest as off. Otherwise it returns 0. On a restart, libvirt reads a status file for each running guest
// and loses a guest with a rejected file. If libvirt 9 is killed as it begins a block commit, it writes a mirror
// without a job, and later rejects that file. The lost guest keeps running, but libvirt no longer controls it.
func (b *Backend) findLostGuest(s observedDomain) (pid int, statusFile string) {
	if s.live != nil || !s.managed {
		return 0, ""
	}
	stem := filepath.Join(filepath.Dir(b.daemon.Socket), "qemu", s.ref.Name)
	text, err := os.ReadFile(stem + ".pid")
	if err != nil {
		return 0, ""
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, ""
	}
	args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // empty if the process has exited
	if err != nil || !strings.Contains(string(args), "\x00-name\x00guest="+strings.ReplaceAll(s.ref.Name, ",", ",,")+",") {
		return 0, ""
	}
	return pid, stem + ".xml"
}

// refuseLostGuest refuses every job for a guest that libvirt has lost. libvirt believes that the guest is off, so
// libvirt would start the guest twice, or change and delete the disks of a running guest.
func (b *Backend) refuseLostGuest(s observedDomain) error {
	if pid, statusFile := b.findLostGuest(s); pid != 0 {
		return hypervisor.FaultError(hypervisor.GuestLostByLibvirtFault(pid, statusFile))
	}
	return nil
}
