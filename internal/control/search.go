package control

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Bounds of the global search.
const (
	maxSearchText  = 200 // bytes
	maxSearchKinds = 8   // results of one kind
)

// Search finds objects of all kinds by a part of their name, the beginning of their id, a MAC or IP address, or a label
// (key=value); at most limit (1…8) of each kind. The ID of a discovered VM is "<host id>/<domain's UUID>".
func (c *Control) Search(ctx context.Context, a fleet.Actor, text string, limit int) ([]fleet.Found, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return []fleet.Found{}, nil
	}
	if len(text) > maxSearchText || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, fleet.Errorf(fleet.Malformed, "Search for one line of at most %d bytes.", maxSearchText)
	}
	if limit < 1 || limit > maxSearchKinds {
		limit = maxSearchKinds
	}
	vms, err := c.searchVMs(ctx, a, text, limit)
	if err != nil {
		return nil, err
	}
	others, err := c.searchOthers(ctx, a, text, limit)
	return append(vms, others...), err
}

// searchVMs asks by each way that text can be meant until there are enough. What is found by an address, label or id needs no
// look at the names, of which a part is the one thing here that no index finds.
func (c *Control) searchVMs(ctx context.Context, a fleet.Actor, text string, limit int) ([]fleet.Found, error) {
	found, had := []fleet.Found{}, map[fleet.VMID]bool{}
	exact := false
	for _, way := range waysToVM(text) {
		if len(found) == limit || exact && way.hint == "" {
			break
		}
		var s statement
		s.visible(a, "v.project_id", "")
		s.and(way.condition(&s))
		tail := paging[fleet.VMView]{order: vmOrders["name"], limit: limit - 1}.apply(&s)
		vms, err := collect(ctx, c, vmColumns+vmTables+s.conditions()+tail, &s, scanVM)
		if err != nil {
			return nil, err
		}
		exact = exact || way.hint != "" && len(vms) > 0
		for _, v := range vms {
			if len(found) < limit && !had[v.ID] {
				had[v.ID] = true
				found = append(found, fleet.Found{
					Kind: "vm", ID: string(v.ID), Name: v.Name, Hint: cmp.Or(way.hint, v.ProjectName+" on "+v.HostName), Phase: v.Phase.Word(), Tone: v.Phase.Tone(),
				})
			}
		}
	}
	return found, nil
}

// wayToVM is one thing that searched text can mean.
type wayToVM struct {
	hint      string
	condition func(*statement) string
}

func waysToVM(text string) []wayToVM {
	folded := strings.ToLower(text)
	exact := []fleet.Match{{Pattern: fleet.Pattern{folded}}}
	var ways []wayToVM
	if mac, err := net.ParseMAC(folded); err == nil {
		ways = append(ways, wayToVM{mac.String(), func(s *statement) string {
			return s.inside("v.spec", `{"nics":[{"mac":?}]}`, "", []fleet.Match{{Pattern: fleet.Pattern{mac.String()}}})
		}})
	}
	if _, err := netip.ParseAddr(folded); err == nil {
		ways = append(ways, wayToVM{folded, func(s *statement) string {
			return s.inside("(v.status->'nics')", `[{"addresses":[?]}]`, "", exact)
		}})
	}
	if key, value, ok := strings.Cut(text, "="); ok && key != "" {
		ways = append(ways, wayToVM{text, func(s *statement) string {
			return s.labels("v.labels", []fleet.Match{{Label: key, Pattern: fleet.Pattern{value}}})
		}})
	}
	if len(folded) >= 8 && strings.Trim(folded, "0123456789abcdef-") == "" {
		ways = append(ways, wayToVM{folded, func(s *statement) string {
			return s.text("v.id", []fleet.Match{{Pattern: fleet.Pattern{folded, ""}}})
		}})
	}
	return append(ways,
		wayToVM{"", func(s *statement) string {
			return s.text("v.name", []fleet.Match{{Pattern: fleet.Pattern{folded, ""}}})
		}},
		// The index alone is read for this, not the VMs.
		wayToVM{"", func(s *statement) string {
			return "v.id IN (SELECT n.id FROM vms n WHERE " + s.text("n.name", []fleet.Match{{Pattern: fleet.Pattern{"", folded, ""}}}) + ")"
		}})
}

// searchOthers looks through the kinds of which there are few.
func (c *Control) searchOthers(ctx context.Context, a fleet.Actor, text string, limit int) ([]fleet.Found, error) {
	var s statement
	part := s.arg(fleet.Pattern{"", text, ""}.Like())
	start := s.arg(fleet.Pattern{strings.ToLower(text), ""}.Like())
	key, value, _ := strings.Cut(text, "=")
	label := s.arg(map[string]string{key: value})
	most := s.arg(limit)
	var parts []string
	add := func(sql string) { parts = append(parts, "(SELECT "+sql+" LIMIT "+most+")") }
	if policy.May(a, policy.InfraSee, "") {
		add(`'host', h.id, h.name, COALESCE(h.status->>'hypervisor', ''), ` + hostPhaseSQL + ` FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id
			WHERE h.name ILIKE ` + part + ` OR h.id LIKE ` + start + ` OR (h.spec->'labels') @> ` + label + `::jsonb ORDER BY h.name`)
		add(`'found', f.host_id || '/' || f.id, f.name, 'discovered on ' || h.name, '' FROM found_vms f JOIN hosts h ON h.id = f.host_id
			WHERE f.name ILIKE ` + part + ` OR f.id LIKE ` + start + ` ORDER BY f.name`)
	}
	if policy.May(a, policy.StorageSee, "") {
		add(`'pool', p.id, p.name, p.spec->>'kind', '' FROM pools p WHERE p.name ILIKE ` + part + ` OR p.id LIKE ` + start + ` ORDER BY p.name`)
		add(`'network', n.id, n.name, n.kind, '' FROM networks n WHERE (n.name ILIKE ` + part + ` OR n.id LIKE ` + start + `)
			AND EXISTS (SELECT 1 FROM network_hosts x WHERE x.network_id = n.id) ORDER BY n.name`)
	}
	seen := "true"
	if !policy.AllProjects(a) {
		seen = s.oneOf("p.id", projectsOf(a))
	}
	add(`'project', p.id, p.name, p.description, '' FROM projects p WHERE ` + seen + ` AND (p.name ILIKE ` + part + ` OR p.id LIKE ` + start + `) ORDER BY p.name`)
	// Every argument is used, whatever the actor sees.
	sql := "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") AS f (kind, id, name, hint, phase) WHERE " + label + "::jsonb IS NOT NULL"
	found, err := collect(ctx, c, sql, &s, func(row pgx.CollectableRow) (fleet.Found, error) {
		var f fleet.Found
		var phase string
		err := row.Scan(&f.Kind, &f.ID, &f.Name, &f.Hint, &phase)
		if phase != "" {
			f.Phase, f.Tone = fleet.HostPhase(phase).Word(), fleet.HostPhase(phase).Tone()
		}
		return f, err
	})
	slices.SortStableFunc(found, func(x, y fleet.Found) int { return cmp.Compare(searchOrder[x.Kind], searchOrder[y.Kind]) })
	return found, err
}

var searchOrder = map[string]int{"host": 1, "pool": 2, "network": 3, "project": 4, "found": 5}
