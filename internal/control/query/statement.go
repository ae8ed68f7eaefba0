package query

import (
	"slices"
	"strconv"
	"strings"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// agentOnlineSQL is the condition that the agent of the session (alias s of host_sessions) is online. reportsFreshSQL
// is the condition that the agent's last report on VMs, pools and networks is fresh, which an agent without its
// hypervisor cannot send. Both compute fleet.IsReportFresh in SQL, with the
// host's own freshness limit.
var (
	agentOnlineSQL  = "COALESCE(is_fresh(s.seen_at, s.fresh_for), false)"
	reportsFreshSQL = "COALESCE(is_fresh(s.looked_at, s.fresh_for), false)"
	// poweredOffSQL is the condition that the last report of the offline host was made before the host powered off by
	// Quantix's command: see fleet.ReportTime.
	poweredOffSQL = "COALESCE(s.seen_at < s.powered_off_at + interval '5 minutes', false)"
)

// saturatingSumSQL returns SQL for the sum of a column, limited to the largest bigint, so that an absurd value from one
// host does not cause an error. The sum of no rows is 0.
func saturatingSumSQL(column string) string {
	return "LEAST(COALESCE(sum(" + column + "), 0), 9223372036854775807)::bigint"
}

// statementBuilder collects the conditions and arguments of a SQL statement. User input may only be added as an
// argument.
type statementBuilder struct {
	where        []string
	args         []any
	planEachTime bool // the best plan depends on the arguments' values

	isSearch bool // contains a substring search, which may scan the whole table
}

// addArg adds an argument and returns its placeholder. The best plan may depend on the argument, so PostgreSQL plans
// the statement each time.
func (s *statementBuilder) addArg(v any) string {
	s.planEachTime = true
	return s.addKeyArg(v)
}

// addKeyArg adds an argument that does not influence the best plan, such as an ID or a cursor's value, and returns its
// placeholder.
func (s *statementBuilder) addKeyArg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// addLikePattern adds the pattern as the argument of LIKE and returns its placeholder.
func (s *statementBuilder) addLikePattern(p filter.Pattern) string {
	s.isSearch = true
	return s.addArg(p.LikePattern())
}

// addCondition adds a condition to the WHERE clause. It puts the condition in parentheses, because it may contain OR.
func (s *statementBuilder) addCondition(condition string) {
	s.where = append(s.where, "("+condition+")")
}

// addConditionOrNegation adds a condition, or its negation if negate is set. The negation also holds if the condition
// is NULL.
func (s *statementBuilder) addConditionOrNegation(negate bool, condition string) {
	if negate {
		condition = "NOT COALESCE((" + condition + "), false)"
	}
	s.addCondition(condition)
}

// whereClause returns the WHERE clause.
func (s *statementBuilder) whereClause() string {
	if len(s.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(s.where, " AND ")
}

// whereClauseWith returns the WHERE clause with one more condition. It does not change s.
func (s *statementBuilder) whereClauseWith(condition string) string {
	more := statementBuilder{where: slices.Clone(s.where)}
	more.addCondition(condition)
	return more.whereClause()
}

// matchText returns the condition that a text column matches one of the alternatives.
func (s *statementBuilder) matchText(column string, any []filter.Match) string {
	return s.anyMatchSQL(column, any, func(m filter.Match) string { return column + " LIKE " + s.addLikePattern(m.Pattern) })
}

// matchTextByTrigrams works like matchText for a column with a trigram index (SQL function pieces_of). The index finds
// matches in the middle or at the end of a text. A negated condition cannot use it.
func (s *statementBuilder) matchTextByTrigrams(negate bool, column string, any []filter.Match) string {
	return s.anyMatchSQL(column, any, func(m filter.Match) string {
		like := column + " LIKE " + s.addLikePattern(m.Pattern)
		if found := patternTrigrams(m.Pattern); len(found) > 0 && !negate {
			like = "(" + like + " AND pieces_of(" + column + ") @> " + s.addArg(found) + "::text[])"
		}
		return like
	})
}

func (s *statementBuilder) anyMatchSQL(column string, any []filter.Match, like func(filter.Match) string) string {
	var exact, parts []string
	for _, m := range any {
		if t, ok := m.ExactText(); ok {
			exact = append(exact, t)
		} else {
			parts = append(parts, like(m))
		}
	}
	switch len(exact) {
	case 0:
	case 1:
		parts = append(parts, column+" = "+s.addArg(exact[0]))
	default:
		parts = append(parts, column+" = ANY ("+s.addArg(exact)+"::text[])")
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// matchLabels returns the condition that the labels in a jsonb column match one of the alternatives.
func (s *statementBuilder) matchLabels(column string, any []filter.Match) string {
	parts := make([]string, len(any))
	for i, m := range any {
		value, exact := m.ExactText()
		switch {
		case exact:
			parts[i] = column + " @> " + s.addArg(map[string]string{m.Label: value}) + "::jsonb"
		case m.LikePattern() == "%":
			parts[i] = column + " ? " + s.addArg(m.Label)
		default:
			key := s.addArg(m.Label)
			parts[i] = "(" + column + " ? " + key + " AND " + column + "->>" + key + " LIKE " + s.addLikePattern(m.Pattern) + ")"
		}
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// oneOfSQL is the condition that the column equals one of the values.
func (s *statementBuilder) oneOfSQL(column string, values []string) string {
	if len(values) == 1 {
		return column + " = " + s.addKeyArg(values[0])
	}
	return column + " = ANY (" + s.addArg(values) + "::text[])"
}

// whereProjectVisible limits rows to the projects that the actor sees. If project is not empty, it limits them to that
// project.
func (s *statementBuilder) whereProjectVisible(a fleet.Actor, column string, project fleet.ProjectID) {
	if project != "" {
		s.addCondition(column + " = " + s.addKeyArg(string(project)))
	}
	if !policy.SeesAllProjects(a) && (project == "" || !slices.Contains(store.VisibleProjects(a), string(project))) {
		s.addCondition(s.oneOfSQL(column, store.VisibleProjects(a)))
	}
}

// whereVMVisible limits rows to the VMs of the projects that the actor sees, except those in the recycle bin. If project
// is not empty, it limits them to that project.
func (s *statementBuilder) whereVMVisible(a fleet.Actor, project fleet.ProjectID) {
	// PostgreSQL expects recycled_at IS NULL to hold for one row of 200 until it has analyzed the table, and would join
	// hosts row by row. Of this condition with the same meaning it expects two rows of three.
	s.addCondition("isfinite(v.recycled_at) IS NOT TRUE")
	s.whereProjectVisible(a, "v.project_id", project)
}

func lowerMatches(any []filter.Match) []filter.Match {
	out := make([]filter.Match, len(any))
	for i, m := range any {
		out[i] = filter.Match{Label: m.Label, Pattern: m.Lower()}
	}
	return out
}
