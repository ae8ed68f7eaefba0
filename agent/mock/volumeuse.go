package mock

import (
	"path"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
)

// refuseUsedVolume refuses a volume in use. The caller holds h.mu.
func (h *Host) refuseUsedVolume(p *pool, f *file) error {
	for _, host := range h.hostsSharingPool(p) {
		for _, g := range host.guests {
			for _, at := range g.definedFiles() {
				if host.volumeAt(at) == &f.Volume {
					return hypervisor.RefuseUsedVolume(f.Name, g.name)
				}
			}
		}
	}
	if other := f.fileBackedBy(p); other != "" {
		return hypervisor.RefuseBackingVolume(f.Name, other)
	}
	return nil
}

// fileBackedBy returns the name of a file of the pool that is backed by this file. It is empty if there is none.
func (f *file) fileBackedBy(p *pool) string {
	for _, other := range p.dir.files {
		if other != f && other.Backing != "" && path.Base(other.Backing) == f.Name && (path.Dir(other.Backing) == volumePathPrefix(p.spec) || !strings.Contains(other.Backing, "/")) {
			return other.Name
		}
	}
	return ""
}

// definedFiles returns all files that the guest's running and persistent definitions name.
func (g *guest) definedFiles() []string {
	out := append(g.persistent.disks(), g.persistent.media()...)
	if g.isRunning() {
		out = append(append(out, g.live.disks()...), g.live.media()...)
	}
	if g.snapshotTree != nil {
		out = append(out, g.snapshotTree.AllFiles()...)
	}
	return slices.DeleteFunc(out, func(f string) bool { return f == "" })
}
