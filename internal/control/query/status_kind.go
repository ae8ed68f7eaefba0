package query

import (
	"cmp"
	"context"
	"slices"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// statusKind reads the host statuses H of the objects of one resource type. Its fields are what differs between the
// types. G is a group of host statuses with equal rank.
type statusKind[ID ~string, G, H any] struct {
	b        *Queries
	typ      fleet.ResourceType
	column   string                                               // column of assignments (alias a) with the object's ID
	groupsOf func(ctx context.Context, id ID) ([]G, error)        // cached for objects on many hosts
	countOf  func(groups []G) int                                 // number of host statuses
	isFaulty func(G) bool                                         // needs an administrator although its hosts are online
	read     func(context.Context, statementBuilder) ([]H, error) // the statuses (alias a) that the statement selects, unordered
	keyOf    func(H) hostStatusKey
	// ranksSQL returns a SQL table of the groups that match the severity terms in tones, each with its rank, and the
	// condition that joins the table with host statuses (alias x)
	ranksSQL func(s *statementBuilder, groups []G, tones []filter.Term) string
	orders   sortOrders[H]

	first totalsCache[ID, firstStatusHosts] // first hosts of each object's list
}

// whereObjects adds the condition that assignments (alias a) belong to these objects, or to any object of a type if ids
// is nil. column is the column with the object's ID.
func (s *statementBuilder) whereObjects(column string, ids []string) {
	if ids == nil {
		s.addCondition(column + " IS NOT NULL")
		return
	}
	if len(ids) == 1 {
		s.addCondition(column + " = " + s.addKeyArg(ids[0]))
		return
	}
	s.addCondition(column + " = ANY (" + s.addKeyArg(ids) + "::text[])")
}

// statusOnHost returns the status of an object on one host.
func (k *statusKind[ID, G, H]) statusOnHost(ctx context.Context, a fleet.Actor, id ID, host fleet.HostID) (status H, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return status, err
	}
	var s statementBuilder
	s.addCondition(k.column + " = " + s.addKeyArg(string(id)) + " AND a.host_id = " + s.addKeyArg(string(host)))
	statuses, err := k.read(ctx, s)
	if err == nil && len(statuses) == 0 {
		err = fleet.Errorf(fleet.NotFound, "The %s is not assigned to this host.", k.typ.Info().Label)
	}
	if err != nil {
		return status, err
	}
	return statuses[0], nil
}

// firstStatuses returns the first host statuses of each object, in their order. groups are those of all objects.
func (k *statusKind[ID, G, H]) firstStatuses(ctx context.Context, ids []string, groups []G) ([]H, error) {
	var s statementBuilder
	s.whereObjects(k.column, ids)
	place, of, err := k.b.firstHostStatuses(ctx, &s, func(s *statementBuilder) string { return k.ranksSQL(s, groups, nil) })
	if err != nil {
		return nil, err
	}
	statuses, err := k.read(ctx, of)
	slices.SortFunc(statuses, func(x, y H) int { return place[k.keyOf(x)] - place[k.keyOf(y)] })
	return statuses, err
}

// statusPage returns one page of an object's host statuses: those that need an administrator first, then by host name.
// The caller passes the object's groups.
func (k *statusKind[ID, G, H]) statusPage(ctx context.Context, id ID, groups []G, q fleet.Query) (fleet.Page[H], error) {
	q.Limit = cmp.Or(q.Limit, fleet.HostStatusesListed)
	p, err := k.orders.parsePaging(q, "worst")
	if err != nil {
		return fleet.Page[H]{}, err
	}
	statuses, err := statusList[H]{
		statuses: k.countOf(groups), hostOf: func(h H) fleet.HostID { return k.keyOf(h).host },
		readFirst: func(ctx context.Context) (firstStatusHosts, error) { return k.first.getTotal(ctx, id) },
		findHosts: func(ctx context.Context) ([]string, error) {
			return k.hostsOnPage(ctx, id, groups, q.Filter, p.applyCursor)
		},
		readStatuses: func(ctx context.Context, hosts []string) ([]H, error) {
			var of statementBuilder
			of.addCondition(k.column + " = " + of.addKeyArg(string(id)) + " AND a.host_id = ANY (" + of.addKeyArg(hosts) + "::text[])")
			return k.read(ctx, of)
		},
	}.readPage(ctx, q, p.limit)
	return p.buildPage(statuses), err
}

// hostsOnPage returns the hosts of one page of an object's status list.
func (k *statusKind[ID, G, H]) hostsOnPage(ctx context.Context, id ID, groups []G, filter string, apply func(*statementBuilder) string) ([]string, error) {
	var s, page statementBuilder
	s.whereObjects(k.column, []string{string(id)})
	tones, err := s.parseStatusFilter(filter)
	if err != nil {
		return nil, err
	}
	page.args, page.planEachTime, page.isSearch = s.args, s.planEachTime, s.isSearch
	ranks := k.ranksSQL(&page, groups, tones)
	return k.b.hostStatusPageHosts(ctx, &page, s.whereClause(), ranks, len(tones) > 0, apply)
}

// findFirstHosts returns the first hosts of an object's status list.
func (k *statusKind[ID, G, H]) findFirstHosts(ctx context.Context, id ID) (first firstStatusHosts, err error) {
	p, err := k.orders.parsePaging(fleet.Query{Limit: fleet.HostStatusesListed}, "worst")
	if err != nil {
		return first, err
	}
	groups, err := k.groupsOf(ctx, id)
	if err != nil {
		return first, err
	}
	first.statuses = k.countOf(groups)
	totals, ok := k.b.fleetTotals.lookUpTotal(ctx, fleetTotalsKey{})
	if ok && !slices.ContainsFunc(groups, k.isFaulty) {
		first.hosts, err = k.b.offlineHostsFirst(ctx, k.typ, string(id), totals.offline)
		return first, err
	}
	first.hosts, err = k.hostsOnPage(ctx, id, groups, "", p.applyCursor)
	return first, err
}

// cacheFirstHosts starts the cache of the first hosts. notify is called with an object whose first hosts have changed.
func (k *statusKind[ID, G, H]) cacheFirstHosts(notify func(ID)) {
	k.first.count, k.first.hosts, k.first.changed = forEachKey(k.findFirstHosts), firstStatusHosts.statusCount, notifyIfChanged(firstStatusHosts.equal, notify)
}

// listStatuses returns one page of an object's host statuses to a user. exists fails if there is no such object.
func (k *statusKind[ID, G, H]) listStatuses(ctx context.Context, a fleet.Actor, id ID, q fleet.Query, exists func() error) (fleet.Page[H], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[H]{}, err
	}
	if err := store.CheckID(id, k.typ.Info().Label); err != nil {
		return fleet.Page[H]{}, err
	}
	groups, err := k.groupsOf(ctx, id)
	if err != nil {
		return fleet.Page[H]{}, err
	}
	page, err := k.statusPage(ctx, id, groups, q)
	if err == nil && len(page.Items) == 0 {
		err = exists() // distinguishes an unknown object from one without hosts
	}
	return page, err
}
