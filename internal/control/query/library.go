package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const imageSQL = `SELECT i.id, i.name, COALESCE(i.project_id, ''), COALESCE(o.name, ''), i.description, i.os, i.created_by, i.created_at,
	COALESCE(i.template_id, ''), COALESCE(t.name, '') FROM images i LEFT JOIN projects o ON o.id = i.project_id LEFT JOIN templates t ON t.id = i.template_id`

var imagesByName = sortOrder[fleet.ImageView]{[]sortColumn{textColumn("i.name"), textColumn("i.id")}, func(v fleet.ImageView) []string {
	return []string{v.Name, string(v.ID)}
}}

var imageSortOrders = sortOrders[fleet.ImageView]{
	"name":    imagesByName,
	"created": imagesByName.withFirstColumn(timeColumn("i.created_at"), func(v fleet.ImageView) string { return formatTime(v.CreatedAt) }),
}

// whereImageVisible limits images (alias i) to those that the actor may see. An actor who cannot see hosts sees only
// images published to the actor's projects.
func (s *statementBuilder) whereImageVisible(a fleet.Actor, _ fleet.ProjectID) {
	if !policy.May(a, policy.InfraSee, "") {
		s.addCondition("EXISTS (SELECT 1 FROM image_open g WHERE g.image_id = i.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", store.VisibleProjects(a)) + "))")
	}
}

// newestVersionSQL returns SQL for a column of the newest version of the image with the alias i.
func newestVersionSQL(column string) string {
	return "(SELECT n." + column + " FROM image_versions n WHERE n.image_id = i.id ORDER BY n.number DESC LIMIT 1)"
}

// imageFilter are the conditions of fleet.ImageKeys.
var imageFilter = listFilter{
	"name":      lowerTextCondition("lower(i.name)"),
	"system":    relatedRowCondition("SELECT 1 FROM jsonb_each_text(i.os) w WHERE ", "lower(w.value)"),
	"format":    exactTextCondition(newestVersionSQL("format")),
	"size":      numberCondition(newestVersionSQL("capacity_bytes"), 1),
	"published": yesNoCondition("EXISTS (SELECT 1 FROM image_open g WHERE g.image_id = i.id)"),
	"pool": func(f filterScope, t filter.Term) error {
		ids, err := f.poolIDsByName(t.Alternatives)
		f.addConditionOrNegation(t.Not, "EXISTS (SELECT 1 FROM image_versions n JOIN image_copies c ON c.version_id = n.id WHERE n.image_id = i.id AND "+f.oneOfSQL("c.pool_id", ids)+")")
		return err
	},
	"created": dayCondition("i.created_at"),
	"uuid":    lowerTextCondition("i.id"),
}

var imageList = list[fleet.ImageView]{
	name: "image", see: policy.StorageSee, orders: imageSortOrders, sort: "name", keys: fleet.ImageKeys, filter: imageFilter, id: "i.id",
	restrict: (*statementBuilder).whereImageVisible, read: (*Queries).readImages,
}

// ListImages returns one page of the image library. Sorts: name, created.
func (b *Queries) ListImages(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.ImageView], error) {
	return imageList.readPage(ctx, b, a, q)
}

// readImages reads the images (alias i) that s selects, with their versions, copies and grants, redacted for the actor.
func (b *Queries) readImages(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]fleet.ImageView, error) {
	views, err := collectRows(ctx, b, imageSQL+s.whereClause()+tail, s, func(x pgx.CollectableRow) (v fleet.ImageView, err error) {
		v.Grants, v.Versions = []fleet.ImageGrant{}, []fleet.ImageVersion{}
		err = x.Scan(&v.ID, &v.Name, &v.ProjectID, &v.ProjectName, &v.Description, &v.OS, &v.CreatedBy, &v.CreatedAt, &v.TemplateID, &v.Template)
		return v, err
	})
	if err != nil || len(views) == 0 {
		return views, err
	}
	if err := b.addImageVersions(ctx, views); err != nil {
		return nil, err
	}
	if err := b.addImageGrants(ctx, a, views); err != nil {
		return nil, err
	}
	return redactAll(a, views, redactImage), nil
}

func (b *Queries) addImageVersions(ctx context.Context, views []fleet.ImageView) error {
	at := map[fleet.ImageID]*fleet.ImageView{}
	var ids []string
	for i := range views {
		at[views[i].ID] = &views[i]
		ids = append(ids, string(views[i].ID))
	}
	var s statementBuilder
	s.addCondition("v.image_id = ANY (" + s.addKeyArg(ids) + "::text[])")
	versions, err := collectRows(ctx, b, `SELECT v.id, v.image_id, v.number, v.format, v.capacity_bytes, v.sha256, v.source, COALESCE(v.start_id, ''), v.created_by, v.created_at FROM image_versions v`+
		s.whereClause()+" ORDER BY v.image_id, v.number DESC", &s, func(x pgx.CollectableRow) (v fleet.ImageVersion, err error) {
		err = x.Scan(&v.ID, &v.ImageID, &v.Number, &v.Format, &v.CapacityBytes, &v.SHA256, &v.Source, &v.StartID, &v.CreatedBy, &v.CreatedAt)
		return v, err
	})
	if err != nil {
		return err
	}
	if err := b.addImageCopies(ctx, versions); err != nil {
		return err
	}
	for _, v := range versions {
		image := at[v.ImageID]
		image.Versions = append(image.Versions, v)
	}
	return nil
}

func (b *Queries) addImageGrants(ctx context.Context, a fleet.Actor, views []fleet.ImageView) error {
	at := map[fleet.ImageID]*fleet.ImageView{}
	var ids []string
	for i := range views {
		at[views[i].ID] = &views[i]
		ids = append(ids, string(views[i].ID))
	}
	var s statementBuilder
	s.addCondition("g.image_id = ANY (" + s.addKeyArg(ids) + "::text[])")
	if !policy.SeesAllProjects(a) {
		s.addCondition("g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", store.VisibleProjects(a)))
	}
	type granted struct {
		fleet.ImageGrant
		image fleet.ImageID
	}
	grants, err := collectRows(ctx, b, `SELECT g.image_id, COALESCE(g.project_id, ''), COALESCE(p.name, ''), g.granted_by, g.granted_at
		FROM image_open g LEFT JOIN projects p ON p.id = g.project_id`+s.whereClause()+" ORDER BY g.image_id, p.name NULLS FIRST", &s,
		func(x pgx.CollectableRow) (g granted, err error) {
			err = x.Scan(&g.image, &g.ProjectID, &g.ProjectName, &g.By, &g.At)
			return g, err
		})
	for _, g := range grants {
		at[g.image].Grants = append(at[g.image].Grants, g.ImageGrant)
	}
	return err
}

// GetImage returns one image of the library.
func (b *Queries) GetImage(ctx context.Context, a fleet.Actor, id fleet.ImageID) (fleet.ImageView, error) {
	return imageList.readOne(ctx, b, a, string(id))
}

// UsableImages lists the images for new VMs of the project, by name, each with its offered versions. Actors who may
// change the infrastructure see all images. Disk images of templates are excluded: users choose the template instead.
func (b *Queries) UsableImages(ctx context.Context, a fleet.Actor, project fleet.ProjectID) ([]fleet.ImageView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("i.template_id IS NULL")
	if !policy.May(a, policy.InfraChange, "") {
		projects := store.ProjectsWithPermission(a, policy.VMChange)
		if project != "" {
			projects = slices.DeleteFunc(projects, func(id string) bool { return id != string(project) })
		}
		s.addCondition("EXISTS (SELECT 1 FROM image_open g WHERE g.image_id = i.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", projects) + "))")
	}
	all, err := b.readImages(ctx, a, &s, " ORDER BY i.name, i.id")
	var out []fleet.ImageView
	for _, v := range all {
		v.Versions = slices.DeleteFunc(v.Versions, func(x fleet.ImageVersion) bool { return !x.Usable || x.IsISO() })
		if len(v.Versions) > 0 {
			out = append(out, v)
		}
	}
	return out, err
}

// redactImage redacts hosts, pools and users for actors who cannot see hosts.
func redactImage(a fleet.Actor, v fleet.ImageView) fleet.ImageView {
	if store.SeesHosts(a) {
		return v
	}
	v.CreatedBy = ""
	for i := range v.Versions {
		x := &v.Versions[i]
		x.Copies, x.VMs, x.Source, x.CreatedBy = nil, nil, "", ""
	}
	for i := range v.Grants {
		v.Grants[i].By = ""
	}
	return v
}

// ImageTitle returns the text of an image version in selection lists of forms.
func ImageTitle(v fleet.ImageView, x fleet.ImageVersion) string {
	title := v.Name
	if v.ProjectName != "" {
		title += " of " + v.ProjectName
	}
	if len(v.Versions) > 1 {
		title += ", version " + strconv.Itoa(x.Number)
	}
	if facts := strings.TrimPrefix(v.OS.Text()+", "+fleet.FormatBytes(x.CapacityBytes), ", "); x.Verified {
		return fmt.Sprintf("%s (%s)", title, facts)
	} else {
		return fmt.Sprintf("%s (%s, checksum not verified yet)", title, facts)
	}
}

// OnlineHostWithPools returns an online host with both pools active, or nil if there is none. If host is not empty,
// only that host is considered. Only the system actor may call OnlineHostWithPools.
func (b *Queries) OnlineHostWithPools(ctx context.Context, a fleet.Actor, one, other fleet.PoolID, host fleet.HostID) (*HostRef, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("a.pool_id = " + s.addKeyArg(string(one)) + " AND a.asked = 'assign' AND a.said = 'active' AND " + reportsFreshSQL)
	s.addCondition("EXISTS (SELECT 1 FROM assignments o WHERE o.pool_id = " + s.addKeyArg(string(other)) + " AND o.host_id = a.host_id AND o.asked = 'assign' AND o.said = 'active')")
	if host != "" {
		s.addCondition("a.host_id = " + s.addKeyArg(string(host)))
	}
	hosts, err := collectRows(ctx, b, "SELECT h.id, h.name FROM assignments a JOIN hosts h ON h.id = a.host_id JOIN host_sessions s ON s.host_id = a.host_id"+s.whereClause()+
		" ORDER BY h.name LIMIT 1", &s, func(x pgx.CollectableRow) (h HostRef, err error) {
		err = x.Scan(&h.ID, &h.Name)
		return h, err
	})
	if err != nil || len(hosts) == 0 {
		return nil, err
	}
	return &hosts[0], nil
}
