package libvirt

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

	"quantix/agent"
	"quantix/internal/fleet"
)

// poolLook is one look at a pool, which also starts again what failed.
type poolLook struct {
	*Backend
	w     *poolWatch
	c     *conn
	pool  fleet.Pool
	alone bool // no order is under way: the look may act and remember
	tried bool // it has started the pool
}

// lookAtPool may hang for as long as the storage does. It has no deadline: a second call could only hang behind it.
func (b *Backend) lookAtPool(p fleet.Pool, w *poolWatch) (fleet.PoolStatus, error) {
	c, err := dial(b.life, b.socket)
	if err != nil {
		return fleet.PoolStatus{}, err
	}
	defer c.hangUp()
	look := poolLook{Backend: b, w: w, c: c, pool: p}
	if unlock, _ := b.pools.orders.try(p.Name); unlock != nil {
		defer unlock()
		look.alone = true
	}
	return call(b.life, c, func(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
		st, err := look.look(l)
		if err != nil && answered(err) {
			return look.failed(inWords(err).Error()), nil
		}
		return st, err
	})
}

func (g *poolLook) failed(words string) fleet.PoolStatus {
	return fleet.PoolStatus{State: fleet.PoolFailed, MountPath: g.pool.Spec.Path, Error: words}
}

func (g *poolLook) look(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
	st := fleet.PoolStatus{State: fleet.PoolInactive, MountPath: g.pool.Spec.Path}
	ref, err := l.StoragePoolLookupByName(g.pool.Name)
	if is(err, golibvirt.ErrNoStoragePool) {
		st.Error = inWords(err).Error()
		return g.idle(l, st, false)
	}
	if err != nil {
		return st, err
	}
	text, err := l.StoragePoolGetXMLDesc(ref, 0)
	if err != nil {
		return st, err
	}
	var x libvirtxml.StoragePool
	if err := x.Unmarshal(agent.Legible(text)); err != nil {
		return st, err
	}
	if !sameSource(x, g.pool.Spec) {
		return g.failed(otherSource(g.pool.Name, x).Error()), nil
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
		return g.idle(l, st, autostart != 0)
	}
	if g.alone {
		kept, _ := g.pools.book.Of(g.pool)
		now, wrong := g.takePlace(g.life, g.pool, kept)
		if wrong != nil {
			return g.misplaced(l, kept, wrong)
		}
		if g.pool.Spec.Kind.Is().Files {
			g.w.try(path.Clean(g.pool.Spec.Path), now)
		}
	}
	return g.w.lookInside(l, ref, g.pool, st, func(err error) { g.poolFailed(g.pool, err) })
}

// misplaced is an active pool whose directory is not its own. What is lost beneath libvirt's pool is mounted again.
func (g *poolLook) misplaced(l *golibvirt.Libvirt, kept agent.RecordedPool, wrong error) (fleet.PoolStatus, error) {
	now, err := agent.SeePlace(kept.Path)
	if err == nil && g.pool.Spec.Kind.Is().Mounted && kept.Unmounted(now) && !g.tried && g.w.healDue() {
		return g.heal(l)
	}
	kept.Failing = true
	g.keepPool(g.pool, kept)
	return g.failed(wrong.Error()), nil
}

// idle is a pool that is not active: stopped by somebody else, or failed, and then started again as soon as that may go well.
func (g *poolLook) idle(l *golibvirt.Libvirt, st fleet.PoolStatus, autostart bool) (fleet.PoolStatus, error) {
	kept, known := g.pools.book.Of(g.pool)
	if !g.alone || !known {
		return g.w.inactive(st), nil
	}
	if !g.pool.Spec.Kind.Is().Mounted {
		if _, wrong := g.judge(g.life, kept); wrong != nil {
			kept.Failing = kept.Failing || !kept.ByOthers
			g.keepPool(g.pool, kept)
			return g.failed(wrong.Error()), nil
		}
	}
	if kept.Stopped(g.pools.book.Boot(), autostart) {
		kept.ByOthers, st.ByOthers = true, true
		g.keepPool(g.pool, kept)
		return st, nil
	}
	if g.tried || !g.w.healDue() {
		return g.w.inactive(st), nil
	}
	return g.heal(l)
}

// heal starts the pool and looks again.
func (g *poolLook) heal(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
	g.tried = true
	err := inAct("start pool "+g.pool.Name, g.startPool(g.life, g.c, g.pool))
	if g.life.Err() != nil {
		return fleet.PoolStatus{}, err
	}
	g.poolFailed(g.pool, err)
	if err != nil {
		return g.failed(err.Error()), nil
	}
	g.log.Info("a storage pool that had failed is active again", "pool", g.pool.Name)
	return g.look(l)
}

// inactive is failed where an order said why.
func (w *poolWatch) inactive(st fleet.PoolStatus) fleet.PoolStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hung:
		st.State, st.Error = fleet.PoolStalled, w.failure
	case w.failure != "":
		st.State, st.Error = fleet.PoolFailed, w.failure
	}
	return st
}

// try writes and reads a little in the pool's directory, as rarely as the pool is refreshed.
func (w *poolWatch) try(dir string, now agent.Sighting) {
	w.mu.Lock()
	due := time.Since(w.refreshed) > refreshAge
	w.mu.Unlock()
	if !due {
		return
	}
	p, err := agent.ProbePlace(dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trial.MountOptions, w.trial.FileSystem, w.trial.Error = now.Options, now.FileSystem, ""
	w.trial.WriteMicros, w.trial.ReadMicros = agent.SteadyMicros(w.trial.WriteMicros, p.Write), agent.SteadyMicros(w.trial.ReadMicros, p.Read)
	if err != nil {
		w.trial.Error = err.Error()
	}
}

// lookInside reads an active pool. A refresh opens each volume, so it is done more rarely than the look.
// failed is told why libvirt gave the pool up.
func (w *poolWatch) lookInside(l *golibvirt.Libvirt, ref golibvirt.StoragePool, p fleet.Pool, st fleet.PoolStatus, failed func(error)) (fleet.PoolStatus, error) {
	w.mu.Lock()
	due := time.Since(w.refreshed) > refreshAge
	volumes, total, machines, images, unlisted := w.volumes, w.total, w.machines, w.images, w.unlisted
	w.mu.Unlock()
	if due {
		begun := time.Now()
		// libvirt deactivates a pool that it cannot refresh, but refuses without harm while a volume is being made.
		err := l.StoragePoolRefresh(ref, 0)
		if err != nil && !isBusy(err) {
			failed(inWords(err))
			return st, err
		}
		busy := err != nil
		list, n, err := listVolumes(l, ref, p)
		switch {
		case err == nil:
			volumes, total, unlisted = list, n, ""
		case ofOne(err):
			unlisted = "Its volumes cannot be listed, so they are shown as they were before: " + inWords(err).Error()
		default:
			return st, err
		}
		if busy {
			volumes = meanwhile(p, volumes)
			total = max(total, len(volumes))
		}
		if p.Spec.Kind.Is().Files {
			machines = tellAppliances(volumes, machines)
			images = tellUnsound(volumes, images)
		}
		w.mu.Lock()
		w.machines, w.images = machines, images
		w.volumes, w.total, w.unlisted, w.refreshed, w.failure, w.hung = volumes, total, unlisted, begun, "", false
		w.mu.Unlock()
	}
	_, capacity, used, available, err := l.StoragePoolGetInfo(ref)
	if err != nil {
		return st, err
	}
	w.mu.Lock()
	tried := w.trial
	w.mu.Unlock()
	st.State, st.Volumes = fleet.PoolActive, volumes
	st.Error = strings.Join(slices.DeleteFunc([]string{tried.Error, unlisted, agent.VolumesUnread(volumes)}, func(s string) bool { return s == "" }), " ")
	st.MountOptions, st.FileSystem, st.WriteMicros, st.ReadMicros = tried.MountOptions, tried.FileSystem, tried.WriteMicros, tried.ReadMicros
	st.CapacityBytes, st.UsedBytes, st.AvailableBytes = int64(capacity), int64(used), int64(available)
	if !p.Spec.Kind.Is().Makes {
		st.UsedBytes, st.AvailableBytes = 0, 0 // LUNs fill all of their pool from the start; how full they are, their guests know
	}
	if total > mostVolumes {
		st.Note = fmt.Sprintf("Only the first %d of its %d volumes are listed.", mostVolumes, total)
	}
	return st, nil
}

// meanwhile adds the files that came since libvirt read the pool, which it does not do while it makes a volume there, however long that takes. What stands
// on another file, or is not sound, waits until libvirt has read it.
func meanwhile(p fleet.Pool, known []fleet.Volume) []fleet.Volume {
	if !p.Spec.Kind.Is().Files {
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
		if len(known) >= mostVolumes || names[name] || agent.Legible(name) != name || !e.Type().IsRegular() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, partialSuffix) || agent.IsOurs(name) {
			continue
		}
		if raw, is := rawFile(p, name); is {
			known = append(known, raw)
			continue
		}
		f, err := readVolume(filepath.Join(dir, name))
		if err != nil || f.RefersTo != "" || f.Fault != "" || f.Encrypted {
			continue
		}
		if f.Disc {
			f.Format = "iso"
		}
		known = append(known, fleet.Volume{Name: name, Path: filepath.Join(dir, name), Format: f.Format, CapacityBytes: f.Size, AllocBytes: f.alloc})
	}
	slices.SortFunc(known, func(a, b fleet.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return known
}

// isBusy reports whether a refresh was refused because a volume of the pool is being made.
func isBusy(err error) bool {
	return answered(err) && strings.Contains(err.Error(), "asynchronous jobs")
}

// mostVolumes is how many volumes of a pool are listed: a directory full of small files must not swell its host's report
// beyond what the portal takes.
const mostVolumes = 2000

// listVolumes lists the pool's first volumes by name, without the marker and those that are being made, and says how many there are in all.
// A volume that cannot be read is listed with its fault.
func listVolumes(l *golibvirt.Libvirt, ref golibvirt.StoragePool, p fleet.Pool) (out []fleet.Volume, total int, err error) {
	refs, _, err := l.StoragePoolListAllVolumes(ref, 1, 0)
	if err != nil {
		return nil, 0, err
	}
	refs = slices.DeleteFunc(refs, func(v golibvirt.StorageVol) bool {
		return strings.HasSuffix(v.Name, partialSuffix) && !forsaken(v.Key) || agent.IsOurs(v.Name)
	})
	slices.SortFunc(refs, func(a, b golibvirt.StorageVol) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range refs[:min(len(refs), mostVolumes)] {
		if raw, is := rawFile(p, v.Name); is {
			out = append(out, raw)
			continue
		}
		one, err := describeVolume(l, v, p)
		switch {
		case is(err, golibvirt.ErrNoStorageVol):
			continue
		case ofOne(err):
			one = fleet.Volume{Name: agent.Legible(v.Name), Path: agent.Legible(v.Key), Fault: "The host cannot read what it is: " + inWords(err).Error()}
		case err != nil:
			return nil, 0, err
		}
		if one.Name != "" {
			out = append(out, one)
		}
	}
	return out, len(refs), nil
}

// describeVolume is the volume as libvirt has it; without a name: it is none that can be used, such as a directory.
func describeVolume(l *golibvirt.Libvirt, v golibvirt.StorageVol, p fleet.Pool) (fleet.Volume, error) {
	text, err := l.StorageVolGetXMLDesc(v, 0)
	if err != nil {
		return fleet.Volume{}, err
	}
	var x libvirtxml.StorageVolume
	if err := x.Unmarshal(agent.Legible(text)); err != nil {
		return fleet.Volume{}, err
	}
	if !slices.Contains([]string{"", "file", "block", "network"}, x.Type) {
		return fleet.Volume{}, nil
	}
	out := volumeIn(p, x)
	if agent.Legible(v.Name) != v.Name {
		out.Fault = agent.VolumeUnnamed
	}
	return out, nil
}

// rawFile is the volume where it is a raw disk by its name: libvirt would tell what its guest wrote there.
func rawFile(p fleet.Pool, name string) (v fleet.Volume, is bool) {
	if !p.Spec.Kind.Is().Files || !fleet.IsRawName(name) || agent.Legible(name) != name {
		return v, false
	}
	at := filepath.Join(path.Clean(p.Spec.Path), name)
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return v, false
	}
	return rawVolume(fleet.Volume{Name: name, Path: at, AllocBytes: allocated(info, info.Size()), Unfinished: strings.HasSuffix(name, partialSuffix)}, info.Size()), true
}

// forsakenAfter is how long what is half made is not written to before nobody is at it any more.
const forsakenAfter = 10 * time.Minute

// forsaken reports whether what is half made was left so. Whatever it holds, it is no whole volume.
func forsaken(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && time.Since(info.ModTime()) > forsakenAfter
}

func volumeOf(x libvirtxml.StorageVolume) fleet.Volume {
	v := fleet.Volume{Name: x.Name, Unfinished: strings.HasSuffix(x.Name, partialSuffix)}
	if x.Target != nil {
		v.Path = x.Target.Path
		if x.Target.Format != nil {
			v.Format = x.Target.Format.Type
		}
	}
	if x.Capacity != nil {
		v.CapacityBytes = int64(x.Capacity.Value)
	}
	if x.Allocation != nil {
		v.AllocBytes = int64(x.Allocation.Value)
	}
	if x.BackingStore != nil {
		v.Backing = x.BackingStore.Path
	}
	return v
}
