package query

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Limits of the global search.
const (
	maxSearchText  = 200 // bytes
	maxSearchKinds = 8   // results of one kind
)

// Search finds objects of all resource types by a part of their name or the beginning of their ID. VMs are also found
// by the beginning of a MAC address, IP address or label (key=value). It returns at most limit (1 to 8) hits per
// resource type. The ID of a discovered VM is "<host ID>/<domain UUID>".
func (b *Queries) Search(ctx context.Context, a fleet.Actor, text string, limit int) ([]fleet.SearchHit, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return []fleet.SearchHit{}, nil
	}
	if len(text) > maxSearchText || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, fleet.Errorf(fleet.Malformed, "The search text must be one line of at most %d bytes.", maxSearchText)
	}
	if limit < 1 || limit > maxSearchKinds {
		limit = maxSearchKinds
	}
	vms, err := b.searchVMs(ctx, a, text, limit)
	if err != nil {
		return nil, err
	}
	others, err := b.searchNonVMObjects(ctx, a, text, limit)
	return append(vms, others...), err
}

// searchVMs tries each interpretation of the text until there are enough hits. After an exact match of an address,
// label or ID it skips searches by name, because a search by a part of a name is slow.
func (b *Queries) searchVMs(ctx context.Context, a fleet.Actor, text string, limit int) ([]fleet.SearchHit, error) {
	found, had := []fleet.SearchHit{}, map[fleet.VMID]bool{}
	exactMatch := false
	for _, interp := range searchInterpretations(text) {
		if len(found) == limit || exactMatch && interp.hint == "" {
			break
		}
		var s statementBuilder
		s.whereVMVisible(a, "")
		s.addCondition(interp.condition(&s))
		sql := vmColumnsSQL + ", " + cmp.Or(interp.hint, "''") + vmTablesSQL + interp.tables + s.whereClause() + " ORDER BY " + interp.order + " LIMIT " + strconv.Itoa(limit)
		vms, err := collectRows(ctx, b, sql, &s, scanVMWithHint)
		if err != nil {
			return nil, err
		}
		for _, v := range vms {
			exactMatch = exactMatch || v.hint == normalizeSearchWord(text) || v.hint == string(v.ID)
			if len(found) < limit && !had[v.ID] {
				had[v.ID] = true
				found = append(found, fleet.SearchHit{
					Kind: "vm", ID: string(v.ID), Name: v.Name, Hint: cmp.Or(v.hint, vmSearchHint(a, v.VMView)), Phase: v.Phase.DisplayName(), Severity: v.Phase.Severity(),
				})
			}
		}
	}
	return found, nil
}

// vmSearchHint returns the name of the VM's project, and of its host if the actor may see hosts.
func vmSearchHint(a fleet.Actor, v fleet.VMView) string {
	if store.SeesHosts(a) {
		return v.ProjectName + " on " + v.HostName
	}
	return v.ProjectName
}

// vmWithHint is a VM with the value that matches the searched text, such as an IP address; empty for the name.
type vmWithHint struct {
	fleet.VMView
	hint string
}

func scanVMWithHint(row pgx.CollectableRow) (v vmWithHint, err error) {
	v.VMView, err = scanVM(rowWithExtraColumn{row, &v.hint})
	return v, err
}

// rowWithExtraColumn is a row with one more column than its scan function scans. Scan stores that column in extra.
type rowWithExtraColumn struct {
	pgx.CollectableRow
	extra any
}

func (r rowWithExtraColumn) Scan(dest ...any) error {
	return r.CollectableRow.Scan(append(dest, r.extra)...)
}

// searchInterpretation is SQL for one interpretation of the searched text, such as a label or the beginning of an ID.
type searchInterpretation struct {
	tables, order string
	hint          string // SQL for the value that contains the text; empty for the name
	condition     func(*statementBuilder) string
}

var vmNamePattern = regexp.MustCompile(`^[a-z0-9.-]+$`)

func searchInterpretations(text string) []searchInterpretation {
	folded, word := strings.ToLower(text), normalizeSearchWord(text)
	like := func(column string, parts ...string) func(*statementBuilder) string {
		return func(s *statementBuilder) string { return s.matchText(column, []filter.Match{{Pattern: parts}}) }
	}
	matchesWord := searchInterpretation{" JOIN vm_words w ON w.vm_id = v.id", "w.word, w.kind, w.vm_id", "w.word", func(s *statementBuilder) string {
		begun := s.addLikePattern(filter.Pattern{word, ""})
		// Use only the first matching search word of each VM, so that each VM is found once.
		return "w.word LIKE " + begun + " AND NOT EXISTS (SELECT 1 FROM vm_words o WHERE o.vm_id = w.vm_id AND o.word < w.word AND o.word LIKE " + begun + ")"
	}}
	var all []searchInterpretation
	certain := strings.ContainsAny(word, ".:=")
	if certain {
		all = append(all, matchesWord)
	}
	if len(folded) >= 8 && strings.Trim(folded, "0123456789abcdef-") == "" {
		all = append(all, searchInterpretation{"", "v.name, v.id", "v.id", like("v.id", folded, "")})
	}
	if vmNamePattern.MatchString(folded) {
		all = append(all, searchInterpretation{"", "v.name, v.id", "", like("v.name", folded, "")}, searchInterpretation{"", "v.name, v.id", "", nameContains(folded)})
	}
	if !certain {
		all = append(all, matchesWord)
	}
	return all
}

// nameContains returns a function that returns the SQL condition that a VM's name contains part.
func nameContains(part string) func(*statementBuilder) string {
	return func(s *statementBuilder) string {
		any := []filter.Match{{Pattern: []string{"", part, ""}}}
		if utf8.RuneCountInString(part) >= trigramLength {
			return s.matchTextByTrigrams(false, "v.name", any)
		}
		// The subquery only reads the index of names, so that the scan is fast.
		return "v.id IN (SELECT n.id FROM vms n WHERE " + s.matchText("n.name", any) + ")"
	}
}

// searchedType is a resource type whose objects the search finds by part of the name or the beginning of the ID.
type searchedType struct {
	fleet.ResourceType
	table    string // with its alias
	hint     string // SQL of the text beside the name
	restrict func(s *statementBuilder, a fleet.Actor, _ fleet.ProjectID)
}

// searchedTypes are the searched resource types, except VMs, discovered VMs and hosts, which are also found by other
// values.
var searchedTypes = []searchedType{
	{fleet.TypeCluster, "clusters cl", "COALESCE(cl.spec->>'cpuModel', '')", nil},
	{fleet.TypePool, "pools p", "p.spec->>'kind'", (*statementBuilder).wherePoolVisible},
	{fleet.TypeNetwork, "networks n", "n.kind", (*statementBuilder).whereNetworkListed},
	{fleet.TypeImage, "images i", "concat_ws(' ', i.os->>'name', i.os->>'version', i.os->>'arch')", func(s *statementBuilder, a fleet.Actor, _ fleet.ProjectID) {
		s.whereImageVisible(a, "")
		s.addCondition("i.template_id IS NULL") // the search returns its template instead
	}},
	{fleet.TypeTemplate, "templates t", "concat_ws(' ', t.os->>'name', t.os->>'version', t.os->>'arch')", (*statementBuilder).whereTemplateVisible},
	{fleet.TypeFlavor, "flavors fl", "fl.cpus || ' vCPUs, ' || fl.memory_mib || ' MiB'", func(s *statementBuilder, a fleet.Actor, _ fleet.ProjectID) {
		if !policy.May(a, policy.InfraSee, "") {
			s.addCondition("EXISTS (SELECT 1 FROM flavor_grants g WHERE g.flavor_id = fl.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", store.VisibleProjects(a)) + "))")
		}
	}},
	{fleet.TypeDeviceClass, "device_classes dc", "dc.description", func(s *statementBuilder, a fleet.Actor, _ fleet.ProjectID) {
		if !policy.May(a, policy.InfraSee, "") {
			s.addCondition("EXISTS (SELECT 1 FROM device_class_grants g WHERE g.class_id = dc.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", store.VisibleProjects(a)) + "))")
		}
	}},
	{fleet.TypeProject, "projects p", "p.description", func(s *statementBuilder, a fleet.Actor, _ fleet.ProjectID) {
		s.whereProjectVisible(a, "p.id", "")
	}},
}

// searchNonVMObjects searches all resource types except VMs. There are few objects of each, so it needs no
// indexes.
func (b *Queries) searchNonVMObjects(ctx context.Context, a fleet.Actor, text string, limit int) ([]fleet.SearchHit, error) {
	var s statementBuilder
	part := s.addLikePattern(filter.Pattern{"", text, ""})
	start := s.addLikePattern(filter.Pattern{strings.ToLower(text), ""})
	key, value, _ := strings.Cut(text, "=")
	label := s.addArg(map[string]string{key: value})
	most := s.addArg(limit)
	var parts []string
	add := func(sql string) { parts = append(parts, "(SELECT "+sql+" LIMIT "+most+")") }
	if policy.May(a, policy.InfraSee, "") {
		add(`'host', h.id, h.name, COALESCE(h.status->>'hypervisor', ''), ` + hostPhaseSQL + ` FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id
			WHERE h.name ILIKE ` + part + ` OR h.id LIKE ` + start + ` OR h.labels @> ` + label + `::jsonb ORDER BY h.name`)
		// There is no index of unmanaged VMs' addresses, because there are few such VMs.
		address := "false"
		if word := normalizeSearchWord(text); addressPrefixPattern.MatchString(word) {
			address = "n.word LIKE " + s.addLikePattern(filter.Pattern{word, ""})
		}
		add(`'found', f.host_id || '/' || f.id, f.name, concat(a.word || ', ', 'discovered on ', h.name), '' FROM found_vms f JOIN hosts h ON h.id = f.host_id
			CROSS JOIN LATERAL (SELECT min(n.word) AS word FROM words_of('{}', f.status, '{}') n WHERE ` + address + `) a
			WHERE f.name ILIKE ` + part + ` OR f.id LIKE ` + start + ` OR a.word IS NOT NULL ORDER BY f.name`)
	}
	for _, t := range searchedTypes {
		typ := t.Info()
		if !policy.May(a, typ.See, "") {
			continue
		}
		_, row, _ := strings.Cut(t.table, " ")
		of := statementBuilder{args: s.args}
		of.addCondition(row + ".name ILIKE " + part + " OR " + row + ".id LIKE " + start)
		if t.restrict != nil {
			t.restrict(&of, a, "")
		}
		s.args = of.args
		add("'" + typ.Label + "', " + row + ".id, " + row + ".name, " + t.hint + ", '' FROM " + t.table + of.whereClause() + " ORDER BY " + row + ".name")
	}
	// PostgreSQL rejects a statement with unused arguments. The label is unused if the actor sees few resource types, so
	// add a condition that uses it and always holds.
	sql := "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") AS f (kind, id, name, hint, phase) WHERE " + label + "::jsonb IS NOT NULL"
	found, err := collectRows(ctx, b, sql, &s, func(row pgx.CollectableRow) (fleet.SearchHit, error) {
		var f fleet.SearchHit
		var phase string
		err := row.Scan(&f.Kind, &f.ID, &f.Name, &f.Hint, &phase)
		if phase != "" {
			f.Phase, f.Severity = fleet.HostPhase(phase).DisplayName(), fleet.HostPhase(phase).Severity()
		}
		return f, err
	})
	slices.SortStableFunc(found, func(x, y fleet.SearchHit) int { return cmp.Compare(searchKindOrder(x.Kind), searchKindOrder(y.Kind)) })
	return found, err
}

func searchKindOrder(kind string) int {
	_, place := fleet.ResourceTypeByLabel(kind)
	return place
}
