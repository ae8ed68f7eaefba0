package mock

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"quantix/agent/hypervisor"
	"quantix/agent/pooldir"
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Storage has the volumes of each pool source, such as an NFS export. All hosts with a pool on that source have the
// same volumes. The lock of Storage also protects the hosts that share it.
type Storage struct {
	mu    sync.Mutex
	dirs  map[string]*sourceDirectory
	hosts []*Host // hosts that share the storage
}

// NewStorage creates an empty storage.
func NewStorage() *Storage { return &Storage{dirs: map[string]*sourceDirectory{}} }

// sourceDirectory has the volumes of one pool source. misplaced simulates that another directory is mounted at the
// pool's path.
type sourceDirectory struct {
	capacity  int64
	files     map[string]*file
	marker    fleet.PoolID
	misplaced *pooldir.DirReading
}

var ownMount = pooldir.Mount{Point: "/", Type: "ext4", Source: "/dev/vda1"}

func (d *sourceDirectory) inspect() pooldir.DirReading {
	if d.misplaced != nil {
		return *d.misplaced
	}
	return pooldir.DirReading{Exists: true, Marker: d.marker, Mount: ownMount}
}

type file struct {
	fleet.Volume
	hasExternalData bool   // the file's data is in another file
	bytes           string // text that represents the file's data; empty: derived from name, format and size
	linked          bool   // a symbolic link replaces the file
	contentFormat   string // the format that a raw disk's content looks like; empty: none

	externalChanges int // number of external changes that reset the file times
}

// pool is a pool on one host. If the pool could not start, dir is nil and startError is the error.
type pool struct {
	spec        fleet.PoolSpec
	dir         *sourceDirectory
	startError  string
	record      pooldir.RecordedPool
	stopped     bool            // somebody else stopped the pool
	preexisting bool            // the host had the pool before Quantix
	edited      *fleet.PoolSpec // the definition after an administrator's edit; nil: spec
}

// drift lists an administrator's edits of the pool's definition.
func (p *pool) drift() []fleet.Drift {
	if p.edited == nil {
		return nil
	}
	source := func(s fleet.PoolSpec) drift.PoolSource {
		return drift.PoolSource{Kind: string(s.Kind), Path: s.Path, Server: s.Server, Export: s.Export, Device: s.Device}
	}
	return drift.OfPool(source(p.spec), source(*p.edited))
}

// fileSystem returns the file system of the pool. Exports of a server share one, and all local directories share one.
func fileSystem(s fleet.PoolSpec) *fleet.FileSystem {
	if s.Kind.Info().Mounted {
		return &fleet.FileSystem{ID: s.Source(), Shared: s.Shared}
	}
	return &fleet.FileSystem{ID: path.Dir(s.Path)}
}

// directoryOf returns the directory of a pool source. It creates a missing directory with the initial volumes. The
// caller holds the hosts' lock.
func (s *Storage) directoryOf(source string, volumes []fleet.Volume) *sourceDirectory {
	d, ok := s.dirs[source]
	if !ok {
		d = &sourceDirectory{capacity: 4 << 40, files: map[string]*file{}}
		for _, v := range volumes {
			d.files[v.Name] = &file{Volume: v}
		}
		s.dirs[source] = d
	}
	return d
}

// ApplyPool implements hypervisor.Storage.
func (h *Host) ApplyPool(ctx context.Context, p fleet.Pool) error { return h.applyPool(ctx, p, false) }

// ReapplyPool implements hypervisor.Storage.
func (h *Host) ReapplyPool(ctx context.Context, p fleet.Pool) error { return h.applyPool(ctx, p, true) }

func (h *Host) applyPool(ctx context.Context, p fleet.Pool, overwrite bool) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	old, ok := h.pools[p.Name]
	h.mu.Unlock()
	if ok && old.spec.Source() != p.Spec.Source() {
		return fleet.Errorf(fleet.Conflict, "The host already has a pool %q with the source %s. Release that pool first.", p.Name, old.spec.Source())
	}
	if ok && len(old.drift()) > 0 && (!overwrite || old.preexisting) {
		return fleet.Errorf(fleet.Conflict, "The host already has a pool %q with the source %s. Change the source back first.", p.Name, old.edited.Source())
	}
	err := h.checkPoolAllowed(p.Spec)
	if err == nil {
		err = h.credentialsError(p)
	}
	if err == nil {
		err = h.simulateMount(ctx, p.Spec)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, other := range h.pools {
		if name != p.Name && other.preexisting && other.spec.Source() == p.Spec.Source() {
			return hypervisor.RefuseTakenPoolSource(name, "at "+other.spec.Path)
		}
	}
	next := &pool{spec: p.Spec, record: pooldir.RecordedPool{ID: p.ID, Path: p.Spec.Path}, preexisting: ok && old.preexisting}
	if ok && old.record.ID == p.ID {
		next.record = old.record
	}
	if err == nil {
		err = next.startOn(h.storage(p.Spec).directoryOf(p.Spec.Source(), initialVolumes(p.Spec, h.options.Images)))
	}
	if err != nil {
		next.startError = err.Error()
	}
	h.pools[p.Name] = next
	h.notify()
	return err
}

// startOn starts the pool on the directory, and creates the marker at first use.
func (p *pool) startOn(d *sourceDirectory) error {
	if p.record.Place != nil {
		p.dir = d // the pool uses the directory again once the directory is back
	}
	if err := p.record.CheckDir(d.inspect()); err != nil {
		return err
	}
	if d.marker == "" {
		d.marker = p.record.ID
	}
	p.dir, p.record.Place = d, &pooldir.RecordedDir{Marked: true, Mount: ownMount}
	return nil
}

func (h *Host) storage(s fleet.PoolSpec) *Storage {
	if s.Kind == fleet.PoolNFS || s.Shared {
		return h.options.SharedStorage
	}
	return h.localStorage
}

// simulateMount simulates a mount. Some servers refuse, and one server never answers.
func (h *Host) simulateMount(ctx context.Context, s fleet.PoolSpec) error {
	switch {
	case s.Kind == fleet.PoolNFS && s.Server == "hang.example":
		<-ctx.Done()
		return ctx.Err()
	case s.Kind == fleet.PoolNFS && strings.HasPrefix(s.Server, "refused"):
		return fmt.Errorf("internal error: Child process (/bin/mount -o nodev,nosuid,noexec %s %s) unexpected exit status 32: mount.nfs: Connection refused for %s on %s",
			s.Source(), s.Path, s.Source(), s.Path)
	}
	return h.waitDelay(ctx, 0.5)
}

// ReleasePool implements hypervisor.Storage.
func (h *Host) ReleasePool(ctx context.Context, p fleet.Pool) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	mine, ok := h.pools[p.Name]
	if !ok || mine.spec.Source() != p.Spec.Source() {
		return nil
	}
	if mine.dir != nil {
		for _, g := range h.guests {
			for name := range mine.dir.files {
				if g.usesFile(path.Join(volumePathPrefix(mine.spec), name)) {
					return fleet.Errorf(fleet.Conflict, "The VM %q uses volumes of the pool %q. Delete or move the VM first.", g.name, p.Name)
				}
			}
		}
	}
	if mine.dir != nil && mine.dir.marker == p.ID && (!p.Spec.Shared || p.DeletedAt != nil) {
		mine.dir.marker = ""
	}
	delete(h.secrets, p.ID)
	delete(h.pools, p.Name)
	if mine.preexisting {
		h.pools[p.Name] = &pool{spec: mine.spec, dir: mine.dir, preexisting: true}
	}
	h.notify()
	return nil
}

// DefinePool creates and starts a pool, like virsh.
func (h *Host) DefinePool(name string, spec fleet.PoolSpec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[name] = &pool{spec: spec, dir: h.storage(spec).directoryOf(spec.Source(), nil), preexisting: true}
	h.notify()
}

// EditPool changes the path in a pool's definition, like virsh pool-edit. An active pool keeps its directory.
func (h *Host) EditPool(name, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pools[name]
	edited := p.spec
	edited.Path = path
	p.edited = &edited
	h.notify()
}

// activePool returns the active pool with the ID on this host. The caller holds h.mu.
func (h *Host) activePool(id fleet.PoolID, pools []fleet.Pool) (*pool, error) {
	i := slices.IndexFunc(pools, func(p fleet.Pool) bool { return p.ID == id })
	if i < 0 {
		return nil, fleet.Errorf(fleet.Invalid, "The pool %s is not known to this host.", id)
	}
	p, ok := h.pools[pools[i].Name]
	if !ok || p.dir == nil || p.stopped {
		return nil, fmt.Errorf("Requested operation is not valid: storage pool '%s' is not active", pools[i].Name)
	}
	return p, p.record.CheckDir(p.dir.inspect())
}

// volumeAt returns the volume with the path. The caller holds h.mu.
func (h *Host) volumeAt(file string) *fleet.Volume {
	for _, p := range h.pools {
		if p.dir != nil && !p.stopped && volumePathPrefix(p.spec) == path.Dir(file) {
			if v, ok := p.dir.files[path.Base(file)]; ok && !v.linked {
				return &v.Volume
			}
		}
	}
	return nil
}

// refuseLockedDisks refuses to start a guest if a guest of another host has one of its disks open, as QEMU does. The
// caller holds h.mu.
func (h *Host) refuseLockedDisks(g *guest) error {
	for _, file := range g.persistent.disks() {
		v := h.volumeAt(file)
		for _, other := range h.options.SharedStorage.hosts {
			if v != nil && other != h && other.isVolumeOpen(v) {
				return fmt.Errorf("internal error: process exited while connecting to monitor: qemu-system-x86_64: Failed to get \"write\" lock\nIs another process using the image [%s]?", file)
			}
		}
	}
	return nil
}

// isVolumeOpen reports whether a running guest has the volume open as a disk.
func (h *Host) isVolumeOpen(v *fleet.Volume) bool {
	for _, g := range h.guests {
		if g.isRunning() && slices.ContainsFunc(g.live.disks(), func(file string) bool { return h.volumeAt(file) == v }) {
			return true
		}
	}
	return false
}

// reportPools reports the assigned pools and lists the other pools. The caller holds h.mu.
func (h *Host) reportPools(assigned []fleet.Pool, hashed map[fleet.Volref]hypervisor.VolumeChecksum) (out []wire.PoolReport, others []fleet.DiscoveredPool) {
	out = []wire.PoolReport{}
	users := fileUsers{h.diskUsers(), h.driveUsers()}
	for _, a := range assigned {
		status := fleet.PoolStatus{State: fleet.PoolInactive, Error: fmt.Sprintf("Storage pool not found: no storage pool with matching name '%s'", a.Name)}
		if p, ok := h.pools[a.Name]; ok {
			status = p.status(users)
			status.Drift, status.Preexisting = p.drift(), p.preexisting
			for i := range status.Volumes {
				v := &status.Volumes[i]
				if sum, ok := hashed[fleet.Volref{PoolID: a.ID, Volume: v.Name}]; ok {
					p.dir.files[v.Name].addChecksum(v, sum)
				}
			}
		}
		out = append(out, wire.PoolReport{ID: a.ID, Name: a.Name, Status: status})
	}
	for name, p := range h.pools {
		if !slices.ContainsFunc(assigned, func(a fleet.Pool) bool { return a.Name == name }) {
			found := fleet.DiscoveredPool{Name: name, Kind: string(p.spec.Kind), Place: "at " + p.spec.Path, Active: p.dir != nil && !p.stopped, Autostart: true}
			found.Spec, found.Adoptability = adoptionOf(name, p.spec)
			others = append(others, found)
		}
	}
	slices.SortFunc(others, func(a, b fleet.DiscoveredPool) int { return strings.Compare(a.Name, b.Name) })
	return out, others
}

// fileUsers maps files to the domains that use them.
type fileUsers struct{ disks, drives map[string][]fleet.VMID }

func (p *pool) status(users fileUsers) fleet.PoolStatus {
	if p.dir == nil {
		return fleet.PoolStatus{State: fleet.PoolFailed, MountPath: p.spec.Path, Error: p.startError}
	}
	if err := p.record.CheckDir(p.dir.inspect()); err != nil {
		return fleet.PoolStatus{State: fleet.PoolFailed, MountPath: p.spec.Path, Error: err.Error()}
	}
	if p.stopped {
		return fleet.PoolStatus{State: fleet.PoolInactive, MountPath: p.spec.Path, StoppedOutside: true}
	}
	s := fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: p.dir.capacity, MountPath: p.spec.Path}
	if p.spec.Kind.Info().FilePool {
		s.MountOptions, s.WriteMicros, s.ReadMicros = "rw,relatime", 800, 200
		s.FileSystem = fileSystem(p.spec)
	}
	for _, f := range p.dir.files {
		v := f.Volume
		v.Path = path.Join(volumePathPrefix(p.spec), v.Name)
		if name := hypervisor.EscapeInvalidText(v.Name); name != v.Name {
			v.Name, v.Path, v.Fault = name, hypervisor.EscapeInvalidText(v.Path), hypervisor.InvalidVolumeNameText
		}
		v.UsedBy, v.InDrive = users.disks[v.Path], users.drives[v.Path]
		if len(v.UsedBy) > 0 {
			v.ModifiedAt = nil
		}
		v.BaseOf, v.BackingUsers = nil, nil
		for _, other := range p.dir.files {
			if other.Backing != v.Path {
				continue
			}
			v.BaseOf = append(v.BaseOf, other.Name)
			for _, id := range users.disks[path.Join(p.spec.Path, other.Name)] {
				if !slices.Contains(v.UsedBy, id) {
					v.BackingUsers = append(v.BackingUsers, id)
				}
			}
		}
		slices.Sort(v.BaseOf)
		slices.Sort(v.BackingUsers)
		v.BackingUsers = slices.Compact(v.BackingUsers)
		v.UsedBy = slices.Concat(v.UsedBy, v.BackingUsers)
		slices.Sort(v.UsedBy)
		if len(v.UsedBy) > 0 {
			v.ModifiedAt, v.NotImageReason = nil, ""
		}
		s.Volumes = append(s.Volumes, v)
		s.UsedBytes += v.AllocBytes
		if !v.IsISO() {
			s.ProvisionedBytes += max(0, v.CapacityBytes-v.AllocBytes)
		}
	}
	slices.SortFunc(s.Volumes, func(a, b fleet.Volume) int { return strings.Compare(a.Name, b.Name) })
	s.Error = hypervisor.SummarizeFaultyVolumes(s.Volumes)
	s.AvailableBytes = s.CapacityBytes - s.UsedBytes
	if !p.spec.Kind.Info().CreatesVolumes {
		s.CapacityBytes, s.UsedBytes, s.AvailableBytes = s.UsedBytes, 0, 0
	}
	return s
}
