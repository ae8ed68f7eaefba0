// Package upgrades has the use cases of upgrades of hosts' agents: the releases that the portal offers, the upgrade of one
// host, and the upgrade of many hosts with canaries first.
package upgrades

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/release"
	"quantix/internal/wire"
)

// Upgrades has the use cases of upgrades of agents. Its exported methods are use cases of control.Control.
type Upgrades struct {
	store   *store.Store
	queries *query.Queries
	dir     string // with the releases; empty: none
}

// New returns the Upgrades with the releases in the directory.
func New(s *store.Store, q *query.Queries, dir string) *Upgrades { return &Upgrades{s, q, dir} }

// maxOffers limits the releases of the directory that are read.
const maxOffers = 200

// ListReleases returns the releases in the portal's directory, the newest first. One that cannot be offered has a
// problem.
func (u *Upgrades) ListReleases(_ context.Context, a fleet.Actor) ([]release.Offer, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	return u.offers()
}

func (u *Upgrades) offers() ([]release.Offer, error) {
	out := []release.Offer{}
	if u.dir == "" {
		return out, nil
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return nil, unreadableDirError()
	}
	defer func() { _ = root.Close() }()
	dir, err := root.Open(".")
	if err != nil {
		return nil, unreadableDirError()
	}
	defer dir.Close()
	for len(out) < maxOffers {
		names, err := dir.Readdirnames(100)
		for _, name := range names {
			if version, platform, ok := release.ParseFileName(name); ok && len(out) < maxOffers && !strings.HasSuffix(name, release.SignatureSuffix) {
				out = append(out, readOffer(root, version, platform))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadableDirError()
		}
	}
	release.SortOffers(out)
	return out, nil
}

func unreadableDirError() error {
	return fleet.Errorf(fleet.Unavailable, "The portal cannot read the directory of its setting agentReleases. Check that it exists and that the portal's user may read it.")
}

// readOffer reads what the directory has of one release. The portal does not verify the signature: only hosts have the
// keys.
func readOffer(root *os.Root, version string, platform release.Platform) release.Offer {
	o := release.Offer{Version: version, Platform: platform}
	program, size, err := openRegular(root, release.FileName(version, platform))
	if err != nil {
		o.Problem = "The portal cannot read the file " + release.FileName(version, platform) + "."
		return o
	}
	program.Close()
	o.SizeBytes = size
	text, err := readManifest(root, version, platform)
	if err != nil {
		o.Problem = "The release has no signature file " + release.FileName(version, platform) + release.SignatureSuffix + " that the portal can read. Sign it with \"quantix release sign\"."
		return o
	}
	m, err := release.ParseManifest(text)
	switch {
	case err != nil:
		o.Problem = "The release cannot be offered: " + err.Error() + "."
	case m.Version != version || m.Platform != platform:
		o.Problem = "The signature is that of version " + m.Version + " for " + m.Platform.String() + "."
	case m.SizeBytes != size:
		o.Problem = "The signature is that of a file of another size."
	default:
		o.SHA256, o.KeyID = m.SHA256, m.KeyID
	}
	return o
}

// openRegular opens a file of the directory for reading, unless it is a link, a device or the like.
func openRegular(root *os.Root, name string) (*os.File, int64, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func readManifest(root *os.Root, version string, platform release.Platform) ([]byte, error) {
	f, _, err := openRegular(root, release.FileName(version, platform)+release.SignatureSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, release.MaxManifestBytes+1))
}

// ReleaseManifest returns the signature of the release that the host's running job installs.
func (u *Upgrades) ReleaseManifest(ctx context.Context, a fleet.Actor, version, platform string) (out wire.ReleaseManifest, err error) {
	root, on, err := u.openForHost(ctx, a, version, platform)
	if err != nil {
		return out, err
	}
	defer func() { _ = root.Close() }()
	if out.Manifest, err = readManifest(root, version, on); err != nil {
		return out, fleet.Errorf(fleet.NotFound, "The portal has no signature of version %s for %s any more.", version, on)
	}
	return out, nil
}

// OpenRelease opens the program of the release that the host's running job installs. The caller closes it.
func (u *Upgrades) OpenRelease(ctx context.Context, a fleet.Actor, version, platform string) (program *os.File, size int64, err error) {
	root, on, err := u.openForHost(ctx, a, version, platform)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }()
	program, size, err = openRegular(root, release.FileName(version, on))
	switch {
	case err != nil:
		return nil, 0, fleet.Errorf(fleet.NotFound, "The portal has no release of version %s for %s any more.", version, on)
	case size > release.MaxBytes:
		program.Close()
		return nil, 0, fleet.Errorf(fleet.Conflict, "The release is larger than %s.", fleet.FormatBytes(release.MaxBytes))
	}
	return program, size, nil
}

// openForHost opens the directory, if the agent's host runs a job that installs the release.
func (u *Upgrades) openForHost(ctx context.Context, a fleet.Actor, version, platform string) (*os.Root, release.Platform, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return nil, release.Platform{}, err
	}
	on, ok := release.ParsePlatform(platform)
	if !ok || !release.IsVersion(version) {
		return nil, on, fleet.Errorf(fleet.NotFound, "There is no such release.")
	}
	ordered, err := u.store.ReleaseOrdered(ctx, db.ReleaseOrderedParams{HostID: string(a.HostID), Version: version})
	switch {
	case err != nil:
		return nil, on, store.UserError(err)
	case !ordered:
		return nil, on, fleet.Errorf(fleet.NotFound, "No upgrade of this host to version %s is in progress.", version)
	case u.dir == "":
		return nil, on, fleet.Errorf(fleet.NotFound, "This portal offers no releases: its setting agentReleases is empty.")
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return nil, on, unreadableDirError()
	}
	return root, on, nil
}
