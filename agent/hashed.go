package agent

import (
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// maxHashed limits the number of stored checksums; only the newest are stored.
const maxHashed = 512

// noteHashed stores new checksums.
func (m *stateFile) noteHashed(fresh ...hypervisor.Hashed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(m.data.Hashed), func(o hypervisor.Hashed) bool {
		return slices.ContainsFunc(fresh, func(h hypervisor.Hashed) bool { return h.Ref == o.Ref })
	})
	all = append(all, fresh...)
	m.data.Hashed = all[max(0, len(all)-maxHashed):]
	return m.save()
}

// hashed returns the stored checksums, by volume.
func (m *stateFile) hashed() map[fleet.Volref]hypervisor.Hashed {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[fleet.Volref]hypervisor.Hashed, len(m.data.Hashed))
	for _, h := range m.data.Hashed {
		out[h.Ref] = h
	}
	return out
}

// removeHash deletes the checksum of a deleted volume.
func (m *stateFile) removeHash(ref fleet.Volref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(m.data.Hashed), func(o hypervisor.Hashed) bool { return o.Ref == ref })
	if len(all) == len(m.data.Hashed) {
		return nil
	}
	m.data.Hashed = all
	return m.save()
}
