package query

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/template"
)

const templateSQL = `SELECT t.id, t.name, t.project_id, o.name, t.description, t.os, t.created_by, t.created_at FROM templates t JOIN projects o ON o.id = t.project_id`

var templatesByName = sortOrder[template.View]{[]sortColumn{textColumn("t.name"), textColumn("t.id")}, func(v template.View) []string {
	return []string{v.Name, string(v.ID)}
}}

var templateSortOrders = sortOrders[template.View]{
	"name":    templatesByName,
	"created": templatesByName.withFirstColumn(timeColumn("t.created_at"), func(v template.View) string { return formatTime(v.CreatedAt) }),
}

// whereTemplateVisible limits templates (alias t) to those that the actor may see. An actor who cannot see hosts sees
// only templates published to the actor's projects.
func (s *statementBuilder) whereTemplateVisible(a fleet.Actor, _ fleet.ProjectID) {
	if !policy.May(a, policy.InfraSee, "") {
		s.addCondition("EXISTS (SELECT 1 FROM template_grants g WHERE g.template_id = t.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", store.VisibleProjects(a)) + "))")
	}
}

// templateFilter are the conditions of fleet.TemplateKeys.
var templateFilter = listFilter{
	"name":      lowerTextCondition("lower(t.name)"),
	"system":    relatedRowCondition("SELECT 1 FROM jsonb_each_text(t.os) w WHERE ", "lower(w.value)"),
	"project":   templateProject,
	"published": yesNoCondition("EXISTS (SELECT 1 FROM template_grants g WHERE g.template_id = t.id AND g.project_id IS DISTINCT FROM t.project_id)"),
	"created":   dayCondition("t.created_at"),
	"uuid":      lowerTextCondition("t.id"),
}

// templateProject is the condition on the name of a template's project. It matches only projects that the actor sees,
// because the others' names are redacted.
var templateProject = sqlCondition(func(f filterScope, t filter.Term) string {
	condition := "EXISTS (SELECT 1 FROM projects w WHERE w.id = t.project_id AND " + f.matchText("w.name", lowerMatches(t.Alternatives)) + ")"
	if !policy.SeesAllProjects(f.actor) {
		condition += " AND " + f.oneOfSQL("t.project_id", store.VisibleProjects(f.actor))
	}
	return condition
})

var templateList = list[template.View]{
	name: "template", see: policy.StorageSee, orders: templateSortOrders, sort: "name", keys: fleet.TemplateKeys, filter: templateFilter, id: "t.id",
	restrict: (*statementBuilder).whereTemplateVisible, read: (*Queries).readTemplates,
}

// ListTemplates returns one page of templates. Sorts: name, created.
func (b *Queries) ListTemplates(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[template.View], error) {
	return templateList.readPage(ctx, b, a, q)
}

// GetTemplate returns one template.
func (b *Queries) GetTemplate(ctx context.Context, a fleet.Actor, id fleet.TemplateID) (template.View, error) {
	return templateList.readOne(ctx, b, a, string(id))
}

// readTemplates reads the templates (alias t) that s selects, with their versions and grants, redacted for the actor.
func (b *Queries) readTemplates(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]template.View, error) {
	views, err := collectRows(ctx, b, templateSQL+s.whereClause()+tail, s, func(x pgx.CollectableRow) (v template.View, err error) {
		v.Grants, v.Versions = []fleet.ImageGrant{}, []template.Version{}
		err = x.Scan(&v.ID, &v.Name, &v.ProjectID, &v.ProjectName, &v.Description, &v.OS, &v.CreatedBy, &v.CreatedAt)
		return v, err
	})
	if err != nil || len(views) == 0 {
		return views, err
	}
	at := map[fleet.TemplateID]*template.View{}
	var ids []string
	for i := range views {
		at[views[i].ID] = &views[i]
		ids = append(ids, string(views[i].ID))
	}
	if err := b.addTemplateVersions(ctx, a, at, ids); err != nil {
		return nil, err
	}
	if err := b.addTemplateGrants(ctx, a, at, ids); err != nil {
		return nil, err
	}
	return redactAll(a, views, redactTemplate), nil
}

func (b *Queries) addTemplateVersions(ctx context.Context, a fleet.Actor, at map[fleet.TemplateID]*template.View, ids []string) error {
	var s statementBuilder
	s.addCondition("v.template_id = ANY (" + s.addKeyArg(ids) + "::text[])")
	type read struct {
		template.Version
		networks []string
	}
	rows, err := collectRows(ctx, b, `SELECT v.id, v.template_id, v.number, v.spec, v.source, v.note, v.deprecated_at, v.deprecated_by, v.created_by, v.created_at,
			ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}')))::text[]
		FROM template_versions v`+s.whereClause()+" ORDER BY v.template_id, v.number DESC", &s, func(x pgx.CollectableRow) (v read, err error) {
		err = x.Scan(&v.ID, &v.TemplateID, &v.Number, &v.Spec, &v.Source, &v.Note, &v.DeprecatedAt, &v.DeprecatedBy, &v.CreatedBy, &v.CreatedAt, &v.networks)
		return v, err
	})
	if err != nil {
		return err
	}
	specs := make([]*fleet.VMSpec, len(rows))
	for i := range rows {
		specs[i] = &rows[i].Spec
	}
	if err := store.NameDeviceClasses(ctx, b.store.Queries, a, specs...); err != nil {
		return err
	}
	var wanted []string
	for _, r := range rows {
		store.FillNetworkNames(r.Spec.NICs, r.networks)
		for _, d := range r.Spec.Disks {
			if id := string(d.VersionID); !slices.Contains(wanted, id) {
				wanted = append(wanted, id)
			}
		}
	}
	images, own, err := b.imageVersionsByID(ctx, wanted)
	if err != nil {
		return err
	}
	made, err := b.store.VMsCreatedFrom(ctx, wanted)
	if err != nil {
		return store.UserError(err)
	}
	for _, r := range rows {
		v := r.Version
		v.Disks, v.VMs = []template.Disk{}, []template.VM{}
		for _, d := range v.Spec.Disks {
			image := images[d.VersionID]
			disk := templateDisk(image, d, store.SeesHosts(a))
			disk.Own = own[d.VersionID] == v.TemplateID
			v.Disks = append(v.Disks, disk)
		}
		addCreatedVMs(a, &v, made)
		v.Actions = policy.RestrictTemplateActions(a, at[v.TemplateID].ProjectID, v.ActionStates())
		at[v.TemplateID].Versions = append(at[v.TemplateID].Versions, v)
	}
	return nil
}

// imageVersionsByID returns image versions with their copies, and the IDs of the templates that own the versions'
// images.
func (b *Queries) imageVersionsByID(ctx context.Context, ids []string) (map[fleet.ImageVersionID]*fleet.ImageVersion, map[fleet.ImageVersionID]fleet.TemplateID, error) {
	out, own := map[fleet.ImageVersionID]*fleet.ImageVersion{}, map[fleet.ImageVersionID]fleet.TemplateID{}
	if len(ids) == 0 {
		return out, own, nil
	}
	var s statementBuilder
	s.addCondition("v.id = ANY (" + s.addKeyArg(ids) + "::text[])")
	versions, err := collectRows(ctx, b, `SELECT v.id, v.image_id, v.number, v.format, v.capacity_bytes, v.sha256, COALESCE(i.template_id, '') FROM image_versions v JOIN images i ON i.id = v.image_id`+s.whereClause(), &s,
		func(x pgx.CollectableRow) (v fleet.ImageVersion, err error) {
			var of fleet.TemplateID
			err = x.Scan(&v.ID, &v.ImageID, &v.Number, &v.Format, &v.CapacityBytes, &v.SHA256, &of)
			own[v.ID] = of
			return v, err
		})
	if err != nil {
		return nil, nil, err
	}
	copies, err := b.readCopies(ctx, versions)
	if err != nil {
		return nil, nil, err
	}
	for i := range versions {
		v := &versions[i]
		for _, c := range copies {
			if c.VersionID == v.ID {
				v.Copies = append(v.Copies, c.ImageCopy)
			}
		}
		out[v.ID] = v
	}
	return out, own, nil
}

// copyStatesBestFirst orders the states of copies from best to worst.
var copyStatesBestFirst = []fleet.CopyState{fleet.CopyReady, fleet.CopyUnverified, fleet.CopyInProgress, fleet.CopyUnknown, fleet.CopyChanged, fleet.CopyMissing}

// templateDisk returns a template's disk with the state of its image, which is the best state of the image's copies. If
// hosts is set, the actor may see the location of the copies.
func templateDisk(image *fleet.ImageVersion, d fleet.Disk, hosts bool) template.Disk {
	out := template.Disk{ImageID: d.ImageID, VersionID: d.VersionID, State: fleet.CopyMissing, Why: "The library no longer has its image.", SizeBytes: d.SizeBytes}
	if image == nil {
		return out
	}
	out.SizeBytes, out.Why = max(image.CapacityBytes, d.SizeBytes), "It has no copy any more."
	best := len(copyStatesBestFirst)
	for _, c := range image.Copies {
		if k := slices.Index(copyStatesBestFirst, c.State); k < best {
			best, out.State, out.Why, out.AllocBytes = k, c.State, c.Why, c.AllocBytes
		}
		if hosts {
			out.Where = append(out.Where, c.LocationText())
		}
	}
	if !hosts && out.Why != "" {
		out.Why = "Its file is missing, or the host does not answer. Ask an administrator."
	}
	return out
}

// addCreatedVMs fills in the VMs created from the version: visible ones by name, the others as a number.
func addCreatedVMs(a fleet.Actor, v *template.Version, made []db.VMsCreatedFromRow) {
	at := map[fleet.VMID]int{}
	others := map[fleet.VMID]bool{}
	mine := func(m db.VMsCreatedFromRow) bool {
		return slices.ContainsFunc(v.Spec.Disks, func(d fleet.Disk) bool { return string(d.VersionID) == m.VersionID })
	}
	for _, m := range made {
		if !mine(m) {
			continue
		}
		if !policy.May(a, policy.VMSee, m.ProjectID) {
			others[m.ID] = others[m.ID] || m.Linked
			continue
		}
		k, known := at[m.ID]
		if !known {
			k, at[m.ID] = len(v.VMs), len(v.VMs)
			v.VMs = append(v.VMs, template.VM{ID: m.ID, Name: m.Name})
		}
		v.VMs[k].Linked = v.VMs[k].Linked || m.Linked
	}
	v.Others = len(others)
	for _, linked := range others {
		if linked {
			v.OthersLinked++
		}
	}
}

func (b *Queries) addTemplateGrants(ctx context.Context, a fleet.Actor, at map[fleet.TemplateID]*template.View, ids []string) error {
	var s statementBuilder
	s.addCondition("g.template_id = ANY (" + s.addKeyArg(ids) + "::text[])")
	if !policy.SeesAllProjects(a) {
		s.addCondition("g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", store.VisibleProjects(a)))
	}
	type granted struct {
		fleet.ImageGrant
		template fleet.TemplateID
	}
	grants, err := collectRows(ctx, b, `SELECT g.template_id, COALESCE(g.project_id, ''), COALESCE(p.name, ''), g.granted_by, g.granted_at
		FROM template_grants g LEFT JOIN projects p ON p.id = g.project_id`+s.whereClause()+" ORDER BY g.template_id, p.name NULLS FIRST", &s,
		func(x pgx.CollectableRow) (g granted, err error) {
			err = x.Scan(&g.template, &g.ProjectID, &g.ProjectName, &g.By, &g.At)
			return g, err
		})
	for _, g := range grants {
		at[g.template].Grants = append(at[g.template].Grants, g.ImageGrant)
	}
	return err
}

// redactTemplate redacts the project and its users if the actor does not see the project.
func redactTemplate(a fleet.Actor, v template.View) template.View {
	if policy.May(a, policy.VMSee, v.ProjectID) {
		return v
	}
	v.ProjectID, v.ProjectName, v.CreatedBy = "", "", ""
	for i := range v.Versions {
		v.Versions[i].CreatedBy, v.Versions[i].DeprecatedBy, v.Versions[i].Source = "", "", ""
	}
	for i := range v.Grants {
		v.Grants[i].By = ""
	}
	return v
}
