// Package events has the use cases of the log of events: reading, and the passes that keep it small and add changes that
// no row shows. Triggers write the log: see migration 0100_events.sql and ADR 101.
package events

import (
	"context"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Log is the log of events.
type Log struct{ store *store.Store }

// New returns the Log in the store's database.
func New(s *store.Store) *Log { return &Log{s} }

const (
	keptTime   = 24 * time.Hour
	keptEvents = 500_000
	pruneBatch = 5000 // events that one transaction deletes
	maxBatch   = 500  // events of one read
)

// grantedTypes are the types that members of projects see by grants. Of customization specs, these are only those without
// a project.
var grantedTypes = []fleet.ResourceType{
	fleet.TypePool, fleet.TypeNetwork, fleet.TypeImage, fleet.TypeTemplate, fleet.TypeFlavor, fleet.TypeDeviceClass,
	fleet.TypeCustomization,
}

// isGranted reports whether members of projects see the event's object by its grants.
func isGranted(r db.EventsAfterRow) bool {
	t := fleet.ResourceType(r.Type)
	return slices.Contains(grantedTypes, t) && (t != fleet.TypeCustomization || r.Project == "")
}

// ReadEvents returns the events that the actor may see now and that follow a position. Objects of a project are visible
// by the project of the event, because an object never changes its project. The visibility of pools, networks, images,
// templates, flavors, device classes and fleet-wide customization specs follows their current grants, or after their deletion the last
// ones.
func (l *Log) ReadEvents(ctx context.Context, a fleet.Actor, q event.Query) (event.Batch, error) {
	p, err := readParams(a, q)
	if err != nil {
		return event.Batch{}, err
	}
	rows, err := l.store.EventsAfter(ctx, p)
	if err != nil {
		return event.Batch{}, store.UserError(err)
	}
	end := rows[len(rows)-1]
	rows = rows[:len(rows)-1]
	b := event.Batch{Known: end.Known, Next: event.ID(end.Key), Pending: end.Pending, More: len(rows) == int(p.Most)}
	if b.More {
		b.Next = event.ID(rows[len(rows)-1].Key)
	}
	rows, err = l.visibleRows(ctx, a, rows)
	for _, r := range rows {
		b.Events = append(b.Events, eventFromRow(a, r))
	}
	return b, err
}

// readParams checks the query and returns the parameters of EventsAfter. The statement returns all events of the open
// types, and the others by project.
func readParams(a fleet.Actor, q event.Query) (p db.EventsAfterParams, err error) {
	if err := policy.Check(a, policy.VMSee, q.Project); err != nil {
		return p, err
	}
	p = db.EventsAfterParams{Types: []string{}, OpenTypes: []string{}, SharedTypes: []string{string(fleet.TypeSecurityGroup), string(fleet.TypeCustomization)}}
	p.Project, p.Projects, p.Own, p.Most = string(q.Project), store.VisibleProjects(a), string(a.UserID), maxBatch
	if q.Limit > 0 {
		p.Most = int32(min(q.Limit, maxBatch))
	}
	if fleet.IsID(string(q.After)) {
		p.After = string(q.After)
	}
	for _, t := range event.Types() {
		asked := slices.Contains(q.Types, t)
		if len(q.Types) > 0 && !asked {
			continue
		}
		if err := policy.Check(a, t.Info().See, ""); err != nil {
			if asked {
				return p, err
			}
			continue
		}
		p.Types = append(p.Types, string(t))
		if seesAll(a, t) {
			p.OpenTypes = append(p.OpenTypes, string(t))
		}
	}
	return p, nil
}

// seesAll reports whether the actor, who may see the type, sees events of all its objects before visibleRows.
func seesAll(a fleet.Actor, t fleet.ResourceType) bool {
	switch t {
	case fleet.TypeVM, fleet.TypeTask, fleet.TypeProject, fleet.TypeSecurityGroup, fleet.TypeCustomization, fleet.TypeRequest:
		return policy.SeesAllProjects(a)
	case fleet.TypeAlarm:
		return store.SeesHosts(a)
	}
	return true
}

// visibleRows removes events of objects with grants that the actor does not see.
func (l *Log) visibleRows(ctx context.Context, a fleet.Actor, rows []db.EventsAfterRow) ([]db.EventsAfterRow, error) {
	if store.SeesHosts(a) {
		return rows, nil
	}
	ids := map[fleet.ResourceType][]string{}
	for _, r := range rows {
		if isGranted(r) {
			t := fleet.ResourceType(r.Type)
			ids[t] = append(ids[t], r.ObjectID)
		}
	}
	if len(ids) == 0 {
		return rows, nil
	}
	projects := store.VisibleProjects(a)
	objects, err := l.store.GrantedObjects(ctx, db.GrantedObjectsParams{
		Projects: projects, Pools: ids[fleet.TypePool], Networks: ids[fleet.TypeNetwork], Images: ids[fleet.TypeImage], Templates: ids[fleet.TypeTemplate], Flavors: ids[fleet.TypeFlavor],
		DeviceClasses:  ids[fleet.TypeDeviceClass],
		Customizations: ids[fleet.TypeCustomization],
	})
	if err != nil {
		return nil, store.UserError(err)
	}
	visible := make(map[fleet.Subject]bool, len(objects))
	for _, o := range objects {
		visible[fleet.Subject(o.Subject)] = o.Visible
	}
	return slices.DeleteFunc(rows, func(r db.EventsAfterRow) bool {
		if !isGranted(r) {
			return false
		}
		if now, exists := visible[fleet.SubjectOf(fleet.ResourceType(r.Type), r.ObjectID)]; exists {
			return !now
		}
		return !slices.ContainsFunc(r.Audience, func(id string) bool { return id == "" || slices.Contains(projects, id) })
	}), nil
}

func eventFromRow(a fleet.Actor, r db.EventsAfterRow) event.Event {
	e := event.Event{
		ID: event.ID(r.Key), Type: fleet.ResourceType(r.Type).Info().Label, Action: event.Action(r.Action), ObjectID: r.ObjectID, Name: r.Name, ProjectID: fleet.ProjectID(r.Project), Time: r.At,
		Subject: fleet.Subject(r.Subject), ParentID: fleet.TaskID(r.Parent), State: r.State, HostID: fleet.HostID(r.Host),
	}
	switch fleet.ResourceType(r.Type) {
	case fleet.TypeTask:
		e.Kind = fleet.JobKind(r.Kind)
	case fleet.TypeAlarm:
		e.Severity = r.Kind
	}
	if e.ProjectID != "" && !policy.May(a, policy.VMSee, e.ProjectID) {
		e.ProjectID = "" // owner of an image or template that is published to the actor's projects
	}
	return e
}

// PruneEvents deletes events that are older than a day or beyond the newest 500,000. It stops when nothing is left, or
// after 20 s; the next run continues.
func (l *Log) PruneEvents(ctx context.Context, a fleet.Actor) error {
	for until, more := time.Now().Add(20*time.Second), true; more && time.Now().Before(until); {
		more = false
		err := l.store.RunPass(ctx, a, "prune events", func(q *db.Queries) error {
			if err := q.DropForeignEvents(ctx); err != nil {
				return err
			}
			n, err := q.PruneEvents(ctx, db.PruneEventsParams{Age: keptTime, Kept: keptEvents, Most: pruneBatch})
			more = n == pruneBatch
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// LogHostLiveness logs an event for each host that went offline or came online, and for each whose reports became stale
// or fresh.
func (l *Log) LogHostLiveness(ctx context.Context, a fleet.Actor) error {
	return l.store.RunPass(ctx, a, "host liveness", func(q *db.Queries) error {
		_, err := q.LogHostLiveness(ctx)
		return err
	})
}
