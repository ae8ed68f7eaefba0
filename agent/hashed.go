package agent

import (
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// maxChecksums limits the number of stored checksums; only the newest are stored.
const maxChecksums = 512

// addChecksums stores new checksums.
func (m *stateFile) addChecksums(fresh ...hypervisor.VolumeChecksum) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(m.data.Hashed), func(o hypervisor.VolumeChecksum) bool {
		return slices.ContainsFunc(fresh, func(h hypervisor.VolumeChecksum) bool { return h.Ref == o.Ref })
	})
	all = append(all, fresh...)
	m.data.Hashed = all[max(0, len(all)-maxChecksums):]
	return m.save()
}

// checksums returns the stored checksums, by volume.
func (m *stateFile) checksums() map[fleet.Volref]hypervisor.VolumeChecksum {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[fleet.Volref]hypervisor.VolumeChecksum, len(m.data.Hashed))
	for _, h := range m.data.Hashed {
		out[h.Ref] = h
	}
	return out
}

// removeChecksum deletes the checksum of a deleted volume.
func (m *stateFile) removeChecksum(ref fleet.Volref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(m.data.Hashed), func(o hypervisor.VolumeChecksum) bool { return o.Ref == ref })
	if len(all) == len(m.data.Hashed) {
		return nil
	}
	m.data.Hashed = all
	return m.save()
}
