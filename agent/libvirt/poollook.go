package libvirt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// lookAtPool may hang for as long as the storage does. It has no deadline: a second call could only hang behind it.
func (b *Backend) lookAtPool(p fleet.Pool, w *poolWatch) (fleet.PoolStatus, error) {
	c, err := dial(b.life, b.socket)
	if err != nil {
		return fleet.PoolStatus{}, err
	}
	defer c.hangUp()
	return call(b.life, c, func(l *golibvirt.Libvirt) (fleet.PoolStatus, error) {
		st, err := w.look(l, p)
		if err != nil && answered(err) {
			return fleet.PoolStatus{State: fleet.PoolFailed, MountPath: p.Spec.Path, Error: inWords(err).Error()}, nil
		}
		return st, err
	})
}

func (w *poolWatch) look(l *golibvirt.Libvirt, p fleet.Pool) (fleet.PoolStatus, error) {
	st := fleet.PoolStatus{State: fleet.PoolInactive, MountPath: p.Spec.Path}
	ref, err := l.StoragePoolLookupByName(p.Name)
	if is(err, golibvirt.ErrNoStoragePool) {
		return w.inactive(st, inWords(err).Error()), nil
	}
	if err != nil {
		return st, err
	}
	text, err := l.StoragePoolGetXMLDesc(ref, 0)
	if err != nil {
		return st, err
	}
	var x libvirtxml.StoragePool
	if err := x.Unmarshal(text); err != nil {
		return st, err
	}
	if !sameSource(x, p.Spec) {
		st.State, st.Error = fleet.PoolFailed, otherSource(p.Name, x).Error()
		return st, nil
	}
	active, err := l.StoragePoolIsActive(ref)
	if err != nil {
		return st, err
	}
	if active == 0 {
		return w.inactive(st, ""), nil
	}
	return w.lookInside(l, ref, st)
}

// inactive is failed where an order said why.
func (w *poolWatch) inactive(st fleet.PoolStatus, words string) fleet.PoolStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.Error = words
	switch {
	case w.hung:
		st.State, st.Error = fleet.PoolStalled, w.failure
	case w.failure != "":
		st.State, st.Error = fleet.PoolFailed, w.failure
	}
	return st
}

// lookInside reads an active pool. A refresh opens each volume, so it is done more rarely than the look.
func (w *poolWatch) lookInside(l *golibvirt.Libvirt, ref golibvirt.StoragePool, st fleet.PoolStatus) (fleet.PoolStatus, error) {
	w.mu.Lock()
	due := time.Since(w.refreshed) > refreshAge
	volumes, total := w.volumes, w.total
	w.mu.Unlock()
	if due {
		begun := time.Now()
		// libvirt deactivates a pool that it cannot refresh, but refuses without harm while a volume is being made.
		err := l.StoragePoolRefresh(ref, 0)
		if err != nil && !isBusy(err) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failure, w.hung = inWords(err).Error(), false
			return st, err
		}
		if volumes, total, err = listVolumes(l, ref); err != nil {
			return st, err
		}
		w.mu.Lock()
		w.volumes, w.total, w.refreshed, w.failure, w.hung = volumes, total, begun, "", false
		w.mu.Unlock()
	}
	_, capacity, used, available, err := l.StoragePoolGetInfo(ref)
	if err != nil {
		return st, err
	}
	st.State, st.Volumes = fleet.PoolActive, volumes
	st.CapacityBytes, st.UsedBytes, st.AvailableBytes = int64(capacity), int64(used), int64(available)
	if total > mostVolumes {
		st.Error = fmt.Sprintf("Only the first %d of its %d volumes are listed.", mostVolumes, total)
	}
	return st, nil
}

// isBusy reports whether a refresh was refused because a volume of the pool is being made.
func isBusy(err error) bool {
	return answered(err) && strings.Contains(err.Error(), "asynchronous jobs")
}

// mostVolumes is how many volumes of a pool are listed: a directory full of small files must not swell its host's report
// beyond what the portal takes.
const mostVolumes = 2000

// listVolumes lists the pool's first volumes by name, without those that are half made, and says how many there are in all.
func listVolumes(l *golibvirt.Libvirt, ref golibvirt.StoragePool) (out []fleet.Volume, total int, err error) {
	refs, _, err := l.StoragePoolListAllVolumes(ref, 1, 0)
	if err != nil {
		return nil, 0, err
	}
	refs = slices.DeleteFunc(refs, func(v golibvirt.StorageVol) bool { return strings.HasSuffix(v.Name, partialSuffix) })
	slices.SortFunc(refs, func(a, b golibvirt.StorageVol) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range refs[:min(len(refs), mostVolumes)] {
		text, err := l.StorageVolGetXMLDesc(v, 0)
		if is(err, golibvirt.ErrNoStorageVol) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		var x libvirtxml.StorageVolume
		if err := x.Unmarshal(text); err != nil {
			return nil, 0, err
		}
		if x.Type == "" || x.Type == "file" || x.Type == "block" {
			out = append(out, volumeOf(x))
		}
	}
	return out, len(refs), nil
}

func volumeOf(x libvirtxml.StorageVolume) fleet.Volume {
	v := fleet.Volume{Name: x.Name}
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
