package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Published is the image version that a volume is a copy of.
type Published struct {
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Stale string    `json:"stale,omitempty"` // why the copy is not offered, for example because its file changed

	ImageID   fleet.ImageID        `json:"imageId,omitempty"`
	Image     string               `json:"image,omitempty"` // image name
	VersionID fleet.ImageVersionID `json:"versionId,omitempty"`
	Number    int                  `json:"number,omitempty"` // version number

	toAllProjects bool // published to every project
	projects      []string
}

// publishedToAnyProject reports whether the image is published to one of the projects.
func (p Published) publishedToAnyProject(projects []string) bool {
	return p.toAllProjects || slices.ContainsFunc(p.projects, func(id string) bool { return slices.Contains(projects, id) })
}

// Images lists the volumes that the actor may clone as disks: those that no VM uses, without a backing file, on an
// online host. Tenants get only published images; actors who may change infrastructure get all. A volume of a shared
// pool is listed once for all hosts with the same report.
func (b *Queries) Images(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	all, err := b.Media(ctx, a)
	return all.Images, err
}

// ISOs lists the volumes that the actor may insert into a CD-ROM drive, under the same rules as Images.
func (b *Queries) ISOs(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	all, err := b.Media(ctx, a)
	return all.ISOs, err
}

// Media holds the results of Images, ISOs and LUNs, which are read together.
type Media struct{ Images, ISOs, LUNs []VolumeOn }

// LUNs lists the existing volumes that can be attached to a VM as disks: LUNs that no domain uses, and volumes that VMs
// can share. It requires the permission to change infrastructure.
func (b *Queries) LUNs(ctx context.Context, a fleet.Actor) ([]VolumeOn, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	all, err := b.Media(ctx, a)
	return all.LUNs, err
}

// Media returns images, ISOs and LUNs.
func (b *Queries) Media(ctx context.Context, a fleet.Actor) (Media, error) {
	var out Media
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return out, err
	}
	statuses, err := b.readNonDiskVolumeReports(ctx, nil)
	if err != nil {
		return out, err
	}
	plain := slices.DeleteFunc(mergeVolumes(statuses), func(v VolumeOn) bool {
		return len(v.Hosts) == 0 || !v.IsImage() && !v.IsISO() && !v.IsShareable()
	})
	all, err := visibleVolumes(ctx, b.store.Queries, a, plain)
	if err == nil {
		err = b.redactPoolNames(ctx, a, all)
	}
	for _, v := range all {
		if v.IsShareable() && v.Published == nil && (v.VM == nil || v.VM.diskShareable) && policy.May(a, policy.InfraChange, "") {
			out.LUNs = append(out.LUNs, v)
		}
		switch {
		case v.VM != nil || !v.readableByActor(a) || !v.IsImage() && !v.IsISO():
		case v.IsISO():
			out.ISOs = append(out.ISOs, v)
		default:
			out.Images = append(out.Images, v)
		}
	}
	return out, err
}

// redactPoolNames removes the names of pools that the actor may not see. Copies of a published image may be in such
// pools, and VMs can be made from them.
func (b *Queries) redactPoolNames(ctx context.Context, a fleet.Actor, volumes []VolumeOn) error {
	if store.SeesHosts(a) || len(volumes) == 0 {
		return nil
	}
	pools := make([]fleet.PoolID, len(volumes))
	for i, v := range volumes {
		pools[i] = v.PoolID
	}
	names, err := b.PoolNames(ctx, a, pools)
	for i := range volumes {
		volumes[i].PoolName = names[volumes[i].PoolID]
	}
	return err
}

// readNonDiskVolumeReports returns the reported volumes in these pools, or in all pools if pools is nil, except volumes
// named like a VM's disk. If several hosts of a shared pool have identical reports, it returns the report of one of
// them, preferably of an online host with the pool active.
func (b *Queries) readNonDiskVolumeReports(ctx context.Context, pools []string) ([]poolVolumeReport, error) {
	var s statementBuilder
	s.addCondition("p.deleted_at IS NULL AND a.asked = 'assign' AND a.plain_digest IS NOT NULL")
	if pools != nil {
		s.addCondition("p.id = ANY (" + s.addKeyArg(pools) + "::text[])")
	}
	type said struct {
		poolVolumeReport
		digest string
	}
	rows, err := collectRows(ctx, b, `SELECT p.id, p.name, p.spec, h.name, g.host_id, g.ready, g.seen, g.digest FROM pools p JOIN (
			SELECT a.pool_id, a.plain_digest AS digest, COALESCE(bool_or(`+reportsFreshSQL+` AND a.said = 'active'), false) AS ready, max(s.looked_at) AS seen,
				COALESCE(min(a.host_id) FILTER (WHERE `+reportsFreshSQL+` AND a.said = 'active'), min(a.host_id)) AS host_id
			FROM pools p JOIN assignments a ON a.pool_id = p.id LEFT JOIN host_sessions s ON s.host_id = a.host_id`+s.whereClause()+`
			GROUP BY a.pool_id, a.plain_digest, CASE WHEN (p.spec->>'shared')::boolean THEN '' ELSE a.host_id END) g ON g.pool_id = p.id
		JOIN hosts h ON h.id = g.host_id ORDER BY p.name, p.id, h.name`, &s, func(row pgx.CollectableRow) (x said, err error) {
		err = row.Scan(&x.pool.ID, &x.pool.Name, &x.pool.Spec, &x.hostName, &x.host, &x.ready, &x.seen, &x.digest)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	var params db.PlainVolumesParams // one host for each digest
	representative := map[string]string{}
	for _, x := range rows {
		if representative[x.digest] == "" {
			params.Pools, params.Hosts = append(params.Pools, string(x.pool.ID)), append(params.Hosts, string(x.host))
			representative[x.digest] = string(x.pool.ID) + " " + string(x.host)
		}
	}
	texts, err := b.store.PlainVolumes(ctx, params)
	if err != nil {
		return nil, store.UserError(err)
	}
	lists := map[string][]fleet.Volume{}
	for _, t := range texts {
		var list []fleet.Volume
		if err := json.Unmarshal(t.Volumes, &list); err != nil {
			return nil, fmt.Errorf("read the volumes of a host: %w", err)
		}
		lists[t.PoolID+" "+t.HostID] = list
	}
	statuses := make([]poolVolumeReport, len(rows))
	for i, x := range rows {
		statuses[i] = x.poolVolumeReport
		statuses[i].volumes = lists[representative[x.digest]]
	}
	return statuses, nil
}

// readableByActor reports whether the actor may read a volume that is not a VM's disk.
func (v VolumeOn) readableByActor(a fleet.Actor) bool {
	return v.offeredToActor(a) || policy.May(a, policy.InfraChange, "")
}

// offeredToActor reports whether the volume is published to one of the actor's projects.
func (v VolumeOn) offeredToActor(a fleet.Actor) bool {
	return v.OfferedToAnyProject(store.VisibleProjects(a))
}

// OfferedToAnyProject reports whether the volume is published to one of the projects and unchanged since then. Only then may VMs
// of the project be created from it.
func (v VolumeOn) OfferedToAnyProject(projects []string) bool {
	return v.Published != nil && v.Published.Stale == "" && v.Published.publishedToAnyProject(projects)
}

// unpublishableReason returns why the volume must not be published, or an empty string if it may be.
func (v VolumeOn) unpublishableReason() string {
	switch {
	case v.VM != nil:
		return fmt.Sprintf("It is a disk of the VM %s. Copy it to another file to make an image of it.", v.VM.Name)
	case fleet.IsVMDiskName(v.Name):
		return "It has the name of a VM's disk, and may have that VM's data. Copy it under another name to make an image of it."
	case v.Backing != "":
		return "It has a backing file, so it is not a complete image. Make an image of the VM that uses it, or choose another volume."
	case !v.IsImage() && !v.IsISO():
		return "It is neither a qcow2 or raw image nor an ISO."
	}
	return v.NotImageReason
}

// volumeKey identifies a volume in the volume list.
type volumeKey struct {
	pool   fleet.PoolID
	volume string
	host   fleet.HostID
}

// copiesByVolume are the image copies in the library, by volume.
type copiesByVolume map[volumeKey]db.LibraryOfRow

func copiesOfVolumes(ctx context.Context, q *db.Queries, volumes []VolumeOn) (copiesByVolume, error) {
	var pools []string
	for _, v := range volumes {
		if id := string(v.PoolID); !slices.Contains(pools, id) {
			pools = append(pools, id)
		}
	}
	out := copiesByVolume{}
	if len(pools) == 0 {
		return out, nil
	}
	rows, err := q.LibraryOf(ctx, pools)
	if err != nil {
		return nil, store.UserError(err)
	}
	for _, r := range rows {
		out[volumeKey{r.PoolID, r.Volume, fleet.HostID(r.Host)}] = r
	}
	return out, nil
}

// excludeOverlays removes domains whose disks are only backed by an image copy from the copy's users, because such
// domains only read the copy.
func (p copiesByVolume) excludeOverlays(v *VolumeOn) {
	if _, ok := p[volumeKey{v.PoolID, v.Name, v.hostID}]; ok {
		v.diskDomains = slices.DeleteFunc(slices.Clone(v.diskDomains), func(u domainKey) bool { return slices.Contains(v.overlayDomains, u) })
	}
}

// markPublished fills in the image version if the volume is a copy of one, and whether the volume has changed since.
// v.VM must be filled in before.
func (p copiesByVolume) markPublished(v *VolumeOn) {
	v.Unfit = v.unpublishableReason()
	r, ok := p[volumeKey{v.PoolID, v.Name, v.hostID}]
	if !ok {
		return
	}
	v.Published = &Published{
		By: r.AddedBy, At: r.AddedAt, Stale: v.Unfit, ImageID: r.ImageID, Image: r.Name, VersionID: r.VersionID, Number: int(r.Number), toAllProjects: r.ToAll, projects: r.Projects,
	}
	if v.Unfit == "" {
		v.Published.Stale = staleCopyReason(r, v.Volume)
	}
}

// staleCopyReason returns how the reported volume differs from the image version in the library, or an empty string if
// no difference is known.
func staleCopyReason(r db.LibraryOfRow, v fleet.Volume) string {
	switch {
	case r.Format == "":
		return "Its host has not reported it as complete yet."
	case r.Format != v.Format || r.CapacityBytes != v.CapacityBytes:
		return fmt.Sprintf("The file was replaced: %s with %d bytes was published, and the file is now %s with %d. Check it and publish it again.",
			r.Format, r.CapacityBytes, v.Format, v.CapacityBytes)
	case v.Altered:
		return "It was written to since its host computed its checksum. Verify it, or copy the image again."
	case r.Sha256 != "" && v.SHA256 != "" && r.Sha256 != v.SHA256:
		return fmt.Sprintf("Its content differs from the image: the file's SHA-256 is %s…, and the image's is %s….", v.SHA256[:min(12, len(v.SHA256))], r.Sha256[:12])
	}
	return ""
}
