package mock

import (
	"context"
	"fmt"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// wrongPasswordUser is the user whose password the simulated storage refuses. A server whose name begins with "refused"
// does not answer.
const wrongPasswordUser = "wrong"

// SetPoolSecret implements hypervisor.Storage.
func (h *Host) SetPoolSecret(ctx context.Context, p fleet.Pool, secret string) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.secrets == nil {
		h.secrets = map[fleet.PoolID]string{}
	}
	h.secrets[p.ID] = secret
	return nil
}

// PoolSecret returns the stored secret of the pool. It is empty if there is none.
func (h *Host) PoolSecret(id fleet.PoolID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.secrets[id]
}

// checkPoolAllowed refuses pools on paths and devices that the host's settings do not allow.
func (h *Host) checkPoolAllowed(s fleet.PoolSpec) error {
	if s.Kind.Info().FilePool {
		return h.options.Roots.CheckDir(s.Path)
	}
	return nil
}

// credentialsError returns the storage's error about the pool's credentials, in libvirt's words.
func (h *Host) credentialsError(p fleet.Pool) error {
	s := p.Spec
	switch server := s.Portal + s.Monitors; {
	case s.Kind.Info().FilePool:
		return nil
	case strings.HasPrefix(server, "refused") && s.Target != "":
		return fmt.Errorf("internal error: Failed to connect to iSCSI target %s: connect failed: Connection refused(111)", s.Target)
	case strings.HasPrefix(server, "refused"):
		return fmt.Errorf("failed to connect to the RADOS monitor on: %s: Connection refused", server)
	case s.User != "" && h.PoolSecret(p.ID) == "":
		return fmt.Errorf("Secret not found: no secret with matching uuid '%s'", p.ID)
	case s.User == wrongPasswordUser && s.Target != "":
		return fmt.Errorf("internal error: Failed to connect to LUN : Failed to log in to target. Status: Authorization failure(514)")
	case s.User == wrongPasswordUser:
		return fmt.Errorf("failed to connect to the RADOS monitor on: %s: Operation not permitted", server)
	}
	return nil
}

// volumePathPrefix returns the prefix of the paths of the pool's volumes.
func volumePathPrefix(s fleet.PoolSpec) string {
	switch {
	case s.Kind.Info().FilePool:
		return s.Path
	case s.Target != "":
		return "iscsi:" + s.Target
	case s.CephPool != "":
		return "rbd:" + s.CephPool
	}
	return "/dev/" + s.Group
}

func appliedPoolDir(p hypervisor.AppliedPool) string {
	if p.Spec == nil {
		return ""
	}
	return volumePathPrefix(*p.Spec)
}

// blockFormatOf returns the format of the volumes of a block pool.
func blockFormatOf(s fleet.PoolSpec) string {
	switch {
	case s.Target != "":
		return fleet.FormatLUN
	case s.CephPool != "":
		return fleet.FormatRBD
	}
	return fleet.FormatLV
}

// initialVolumes returns the volumes of a new pool. An iSCSI target has LUNs, and a file pool has the given images.
func initialVolumes(s fleet.PoolSpec, images []fleet.Volume) []fleet.Volume {
	switch {
	case s.Kind.Info().FilePool:
		return images
	case s.Target == "":
		return nil
	}
	var out []fleet.Volume
	for i := range 3 {
		size := int64(i+1) * 64 << 30
		out = append(out, fleet.Volume{Name: fmt.Sprintf("unit:0:0:%d", i+1), Format: fleet.FormatLUN, CapacityBytes: size, AllocBytes: size})
	}
	return out
}
