package storage

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// poolCheckRun is one check of a pool. The check also restarts a failed pool.
type poolCheckRun struct {
	*Pools
	watch     *poolWatch
	c         *conn.Conn
	pool      fleet.Pool
	exclusive bool // no job of the pool is running, so the check may act and record
	started   bool // this check has already tried to start the pool
	drift     []fleet.Drift
	// preexisting: libvirt had the pool before Quantix
	preexisting bool
}

// checkPool checks a pool and blocks as long as the pool's storage hangs. It has no deadline, because a second call
// would hang behind the first.
func (ps *Pools) checkPool(p fleet.Pool, w *poolWatch) (fleet.PoolStatus, error) {
	c, err := ps.daemon.Dial(ps.daemon.RunContext)
	if err != nil {
		return fleet.PoolStatus{}, err
	}
	defer c.Disconnect()
	check := poolCheckRun{Pools: ps, watch: w, c: c, pool: p}
	if unlock, _ := ps.locks.TryLock(p.Name); unlock != nil {
		defer unlock()
		check.exclusive = true
	}
	return conn.Call(ps.daemon.RunContext, c, func(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
		st, err := check.checkStatus(l)
		if err != nil && conn.IsLibvirtError(err) {
			st, err = check.failedStatus(conn.TranslateError(err).Error()), nil
		}
		st.Drift, st.Preexisting = check.drift, check.preexisting
		return st, err
	})
}

// failedStatus returns the status of a failed pool.
func (g *poolCheckRun) failedStatus(message string) fleet.PoolStatus {
	return fleet.PoolStatus{State: fleet.PoolFailed, MountPath: g.pool.Spec.Path, Error: message}
}

// checkStatus returns the pool's status, and restarts a failed pool if a retry is due.
func (g *poolCheckRun) checkStatus(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
	st := fleet.PoolStatus{State: fleet.PoolInactive, MountPath: g.pool.Spec.Path}
	ref, err := l.StoragePoolLookupByName(g.pool.Name)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool) {
		st.Error = conn.TranslateError(err).Error()
		return g.restartInactivePoolIfDue(l, st, false)
	}
	if err != nil {
		return st, err
	}
	text, err := l.StoragePoolGetXMLDesc(ref, 0)
	if err != nil {
		return st, err
	}
	var x libvirtxml.StoragePool
	if err := x.Unmarshal(hypervisor.EscapeInvalidText(text)); err != nil {
		return st, err
	}
	record, _ := g.book.RecordOf(g.pool)
	g.preexisting = !createdByQuantix(x, g.pool) && isSameStorage(x, g.pool.Spec)
	if g.drift, err = poolDrift(l, ref, g.pool, record); err != nil {
		return st, err
	}
	if !isSameStorage(x, g.pool.Spec) {
		return g.failedStatus(errPoolHasOtherSource(g.pool.Name, x).Error()), nil
	}
	active, err := l.StoragePoolIsActive(ref)
	if err != nil {
		return st, err
	}
	if active == 0 {
		autostart, err := l.StoragePoolGetAutostart(ref)
		if err != nil {
			return st, err
		}
		return g.restartInactivePoolIfDue(l, st, autostart != 0)
	}
	if g.exclusive {
		now, problem := g.recordPoolDir(g.daemon.RunContext, g.pool, record)
		if problem != nil {
			return g.restartUnmountedPoolIfDue(l, record, problem)
		}
		if g.pool.Spec.Kind.Info().FilePool {
			g.watch.probeDir(path.Clean(g.pool.Spec.Path), now)
		}
	}
	return g.watch.readActivePool(l, ref, g.pool, st, func(err error) { g.recordPoolOutcome(g.pool, err) })
}

// restartUnmountedPoolIfDue handles an active pool whose directory is not the recorded one. If the pool has lost its mount, it
// mounts the pool again.
func (g *poolCheckRun) restartUnmountedPoolIfDue(l *golibvirt.Libvirt, record pooldir.RecordedPool, problem error) (fleet.PoolStatus, error) {
	now, err := pooldir.InspectDir(record.Path)
	if err == nil && g.pool.Spec.Kind.Info().Mounted && record.IsUnmounted(now) && !g.started && g.watch.isRestartDue() {
		return g.restartPool(l)
	}
	record.Failing = true
	g.recordPool(g.pool, record)
	return g.failedStatus(problem.Error()), nil
}

// restartInactivePoolIfDue handles an inactive pool that somebody stopped or that failed. It starts a failed pool again once a
// retry is due.
func (g *poolCheckRun) restartInactivePoolIfDue(l *golibvirt.Libvirt, st fleet.PoolStatus, autostart bool) (fleet.PoolStatus, error) {
	record, known := g.book.RecordOf(g.pool)
	if !g.exclusive || !known {
		return g.watch.inactiveStatus(st), nil
	}
	if !g.pool.Spec.Kind.Info().Mounted {
		if _, problem := g.checkPoolDir(g.daemon.RunContext, record); problem != nil {
			record.Failing = record.Failing || !record.ByOthers
			g.recordPool(g.pool, record)
			return g.failedStatus(problem.Error()), nil
		}
	}
	if record.IsStoppedByOthers(g.book.BootID(), autostart) {
		record.ByOthers, st.StoppedOutside = true, true
		g.recordPool(g.pool, record)
		return st, nil
	}
	if g.started || !g.watch.isRestartDue() {
		return g.watch.inactiveStatus(st), nil
	}
	return g.restartPool(l)
}

// restartPool starts the pool and checks it again.
func (g *poolCheckRun) restartPool(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
	g.started = true
	err := conn.WrapAction("start pool "+g.pool.Name, g.startPool(g.daemon.RunContext, g.c, g.pool))
	if g.daemon.RunContext.Err() != nil {
		return fleet.PoolStatus{}, err
	}
	g.recordPoolOutcome(g.pool, err)
	if err != nil {
		return g.failedStatus(err.Error()), nil
	}
	g.log.Info("a storage pool that had failed is active again", "pool", g.pool.Name)
	return g.checkStatus(l)
}

// inactiveStatus returns st as failed or stalled if the pool's last start failed or hung, otherwise unchanged.
func (w *poolWatch) inactiveStatus(st fleet.PoolStatus) fleet.PoolStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.timedOut:
		st.State, st.Error = fleet.PoolStalled, w.failure
	case w.failure != "":
		st.State, st.Error = fleet.PoolFailed, w.failure
	}
	return st
}

// probeDir writes and reads a small file in the pool's directory, at most once per poolRefreshInterval.
func (w *poolWatch) probeDir(dir string, now pooldir.DirReading) {
	w.mu.Lock()
	due := time.Since(w.refreshed) > poolRefreshInterval
	w.mu.Unlock()
	if !due {
		return
	}
	p, err := pooldir.ProbeDir(dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastProbe.MountOptions, w.lastProbe.FileSystem, w.lastProbe.Error = now.Options, now.FileSystem, ""
	w.lastProbe.WriteMicros, w.lastProbe.ReadMicros = pooldir.SteadyMicroseconds(w.lastProbe.WriteMicros, p.Write), pooldir.SteadyMicroseconds(w.lastProbe.ReadMicros, p.Read)
	if err != nil {
		w.lastProbe.Error = err.Error()
	}
}

// readActivePool reads an active pool. A refresh opens each volume, so readActivePool refreshes the pool only once per
// poolRefreshInterval. If libvirt deactivates the pool, readActivePool calls failed with the error.
func (w *poolWatch) readActivePool(l *golibvirt.Libvirt, ref golibvirt.StoragePool, p fleet.Pool, st fleet.PoolStatus, failed func(error)) (fleet.PoolStatus, error) {
	w.mu.Lock()
	due := time.Since(w.refreshed) > poolRefreshInterval
	volumes, total, machines, images, unlisted := w.volumes, w.total, w.appliances, w.images, w.listingError
	w.mu.Unlock()
	if due {
		begun := time.Now()
		// libvirt deactivates a pool that fails to refresh. While a volume is being created, libvirt refuses the
		// refresh and the pool stays active.
		err := l.StoragePoolRefresh(ref, 0)
		if err != nil && !isPoolBusyError(err) {
			failed(conn.TranslateError(err))
			return st, err
		}
		busy := err != nil
		list, n, err := listVolumes(l, ref, p)
		switch {
		case err == nil:
			volumes, total, unlisted = list, n, ""
		case conn.IsObjectError(err):
			unlisted = "The pool's volumes cannot be listed, so the list is an earlier one: " + conn.TranslateError(err).Error()
		default:
			return st, err
		}
		if busy {
			volumes = addNewFiles(p, volumes)
			total = max(total, len(volumes))
		}
		if p.Spec.Kind.Info().FilePool {
			machines = addAppliances(volumes, machines)
			images = markInvalidImages(volumes, images)
		}
		w.mu.Lock()
		w.appliances, w.images = machines, images
		w.volumes, w.total, w.listingError, w.refreshed, w.failure, w.timedOut = volumes, total, unlisted, begun, "", false
		w.mu.Unlock()
	}
	_, capacity, used, available, err := l.StoragePoolGetInfo(ref)
	if err != nil {
		return st, err
	}
	w.mu.Lock()
	tried := w.lastProbe
	w.mu.Unlock()
	st.State, st.Volumes = fleet.PoolActive, volumes
	st.Error = strings.Join(slices.DeleteFunc([]string{tried.Error, unlisted, hypervisor.SummarizeFaultyVolumes(volumes)}, func(s string) bool { return s == "" }), " ")
	st.MountOptions, st.FileSystem, st.WriteMicros, st.ReadMicros = tried.MountOptions, tried.FileSystem, tried.WriteMicros, tried.ReadMicros
	st.CapacityBytes, st.UsedBytes, st.AvailableBytes = int64(capacity), int64(used), int64(available)
	if !p.Spec.Kind.Info().CreatesVolumes {
		// LUNs always fill the whole pool, and the host cannot see how much of a LUN its guest uses.
		st.UsedBytes, st.AvailableBytes = 0, 0
	}
	if total > maxListedVolumes {
		st.Note = fmt.Sprintf("Only the first %d of the pool's %d volumes are listed.", maxListedVolumes, total)
	}
	return st, nil
}

// addNewFiles adds the files that are newer than libvirt's listing, because libvirt cannot refresh while it creates a
// volume. Overlays and invalid images appear after libvirt's next refresh.
func addNewFiles(p fleet.Pool, known []fleet.Volume) []fleet.Volume {
	if !p.Spec.Kind.Info().FilePool {
		return known
	}
	dir := path.Clean(p.Spec.Path)
	files, err := os.ReadDir(dir)
	if err != nil {
		return known
	}
	names := map[string]bool{}
	for _, v := range known {
		names[v.Name] = true
	}
	for _, e := range files {
		name := e.Name()
		if len(known) >= maxListedVolumes || names[name] || hypervisor.EscapeInvalidText(name) != name || !e.Type().IsRegular() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, PartialSuffix) || pooldir.IsQuantixFile(name) {
			continue
		}
		if raw, is := rawVolumeFile(p, name); is {
			known = append(known, raw)
			continue
		}
		f, err := hostfile.ReadVolumeFile(filepath.Join(dir, name))
		if err != nil || f.RefersTo != "" || f.HeaderFault != "" || f.Encrypted {
			continue
		}
		if f.IsDisc {
			f.Format = "iso"
		}
		known = append(known, fleet.Volume{Name: name, Path: filepath.Join(dir, name), Format: f.Format, CapacityBytes: f.Size, AllocBytes: f.Alloc})
	}
	slices.SortFunc(known, func(a, b fleet.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return known
}

// isPoolBusyError reports whether libvirt refused the refresh because a volume of the pool is being created.
func isPoolBusyError(err error) bool {
	return conn.IsLibvirtError(err) && strings.Contains(err.Error(), "asynchronous jobs")
}

// maxListedVolumes limits the listed volumes of a pool. A directory of many small files could otherwise make the host's
// report too large for the portal.
const maxListedVolumes = 2000

// listVolumes lists the pool's first volumes by name and returns the total number of volumes. It omits the marker and
// unfinished volumes, and lists an unreadable volume with its fault.
func listVolumes(l *golibvirt.Libvirt, ref golibvirt.StoragePool, p fleet.Pool) (out []fleet.Volume, total int, err error) {
	refs, _, err := l.StoragePoolListAllVolumes(ref, 1, 0)
	if err != nil {
		return nil, 0, err
	}
	refs = slices.DeleteFunc(refs, func(v golibvirt.StorageVol) bool {
		return strings.HasSuffix(v.Name, PartialSuffix) && !isUnfinishedFileAbandoned(v.Key) || pooldir.IsQuantixFile(v.Name)
	})
	slices.SortFunc(refs, func(a, b golibvirt.StorageVol) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range refs[:min(len(refs), maxListedVolumes)] {
		if raw, is := rawVolumeFile(p, v.Name); is {
			out = append(out, raw)
			continue
		}
		one, err := describeVolume(l, v, p)
		switch {
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol):
			continue
		case conn.IsObjectError(err):
			one = fleet.Volume{Name: hypervisor.EscapeInvalidText(v.Name), Path: hypervisor.EscapeInvalidText(v.Key), Fault: "The host cannot read the volume: " + conn.TranslateError(err).Error()}
		case err != nil:
			return nil, 0, err
		}
		if one.Name != "" {
			out = append(out, one)
		}
	}
	return out, len(refs), nil
}

// describeVolume reads the volume from libvirt. The name is empty if the volume is unusable, such as a directory.
func describeVolume(l *golibvirt.Libvirt, v golibvirt.StorageVol, p fleet.Pool) (fleet.Volume, error) {
	text, err := l.StorageVolGetXMLDesc(v, 0)
	if err != nil {
		return fleet.Volume{}, err
	}
	var x libvirtxml.StorageVolume
	if err := x.Unmarshal(hypervisor.EscapeInvalidText(text)); err != nil {
		return fleet.Volume{}, err
	}
	if !slices.Contains([]string{"", "file", "block", "network"}, x.Type) {
		return fleet.Volume{}, nil
	}
	out := volumeFromXML(p, x)
	if hypervisor.EscapeInvalidText(v.Name) != v.Name {
		out.Fault = hypervisor.InvalidVolumeNameText
	}
	return out, nil
}

// rawVolumeFile returns the volume if the name is the name of a raw disk. libvirt would probe the format from bytes
// that the guest wrote.
func rawVolumeFile(p fleet.Pool, name string) (v fleet.Volume, is bool) {
	if !p.Spec.Kind.Info().FilePool || !fleet.IsRawName(name) || hypervisor.EscapeInvalidText(name) != name {
		return v, false
	}
	at := filepath.Join(path.Clean(p.Spec.Path), name)
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return v, false
	}
	return hostfile.RawVolumeListing(fleet.Volume{Name: name, Path: at, AllocBytes: hostfile.AllocatedBytes(info, info.Size()), Unfinished: strings.HasSuffix(name, PartialSuffix)}, info.Size()), true
}

// unfinishedMaxAge is the time since the last write after which an unfinished file counts as abandoned.
const unfinishedMaxAge = 10 * time.Minute

// isUnfinishedFileAbandoned reports whether nobody has written to the unfinished file for unfinishedMaxAge.
func isUnfinishedFileAbandoned(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && time.Since(info.ModTime()) > unfinishedMaxAge
}
