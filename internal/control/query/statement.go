package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// agentOnlineSQL is a SQL condition: the agent of host_sessions s is online. reportsFreshSQL is the condition that the
// agent's reports on VMs, pools and networks are fresh too: an agent without a connection to its hypervisor reports
// none of these. Both are fleet.Fresh in SQL.
var (
	agentOnlineSQL  = isFreshSQL("s.seen_at")
	reportsFreshSQL = isFreshSQL("s.looked_at")
)

func isFreshSQL(column string) string {
	return fmt.Sprintf("COALESCE(is_fresh(%s, interval '%d seconds'), false)", column, int(fleet.Freshness/time.Second))
}

// saturatingSumSQL sums a quantity that hosts report. It saturates at the largest bigint, so that an absurd value from
// one host does not fail the query. The total of no rows is 0.
func saturatingSumSQL(column string) string {
	return "LEAST(COALESCE(sum(" + column + "), 0), 9223372036854775807)::bigint"
}

// statementBuilder is a SQL statement under construction. User input only ever becomes a bound argument.
type statementBuilder struct {
	where        []string
	args         []any
	planEachTime bool // the best plan depends on the arguments' values

	isSearch bool // contains a substring search, which may scan the whole table
}

// addArg binds a value that may change the plan and returns its placeholder.
func (s *statementBuilder) addArg(v any) string {
	s.planEachTime = true
	return s.keyArg(v)
}

// keyArg binds a value that does not change the plan, such as an ID or a cursor position.
func (s *statementBuilder) keyArg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// likePattern binds the pattern of a LIKE.
func (s *statementBuilder) likePattern(p fleet.Pattern) string {
	s.isSearch = true
	return s.addArg(p.LikePattern())
}

// addCondition adds a condition to the WHERE clause. The parentheses keep an OR within it from widening the other
// conditions.
func (s *statementBuilder) addCondition(condition string) {
	s.where = append(s.where, "("+condition+")")
}

// addConditionOrNegation adds a condition, or its negation if negate is set. The negation holds for NULL.
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

// whereClauseWith returns the WHERE clause with one more condition, without changing s.
func (s *statementBuilder) whereClauseWith(condition string) string {
	more := statementBuilder{where: slices.Clone(s.where)}
	more.addCondition(condition)
	return more.whereClause()
}

// matchText returns the condition that a text column matches any of the alternatives.
func (s *statementBuilder) matchText(column string, any []fleet.FilterMatch) string {
	return s.anyOf(column, any, func(m fleet.FilterMatch) string { return column + " LIKE " + s.likePattern(m.Pattern) })
}

// matchTextByTrigrams works like text for a column with a trigram index (pieces_of), which finds matches in the middle
// or at the end. A negated condition cannot use the index.
func (s *statementBuilder) matchTextByTrigrams(negate bool, column string, any []fleet.FilterMatch) string {
	return s.anyOf(column, any, func(m fleet.FilterMatch) string {
		like := column + " LIKE " + s.likePattern(m.Pattern)
		if found := patternTrigrams(m.Pattern); len(found) > 0 && !negate {
			like = "(" + like + " AND pieces_of(" + column + ") @> " + s.addArg(found) + "::text[])"
		}
		return like
	})
}

func (s *statementBuilder) anyOf(column string, any []fleet.FilterMatch, like func(fleet.FilterMatch) string) string {
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

// matchLabels returns the condition that a jsonb column of labels matches any of the alternatives.
func (s *statementBuilder) matchLabels(column string, any []fleet.FilterMatch) string {
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
			parts[i] = "(" + column + " ? " + key + " AND " + column + "->>" + key + " LIKE " + s.likePattern(m.Pattern) + ")"
		}
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// oneOfSQL is the condition that the column equals one of the values.
func (s *statementBuilder) oneOfSQL(column string, values []string) string {
	if len(values) == 1 {
		return column + " = " + s.keyArg(values[0])
	}
	return column + " = ANY (" + s.addArg(values) + "::text[])"
}

// whereProjectVisible limits rows to the projects that the actor sees, and to one project unless only is empty.
func (s *statementBuilder) whereProjectVisible(a fleet.Actor, column string, only fleet.ProjectID) {
	if only != "" {
		s.addCondition(column + " = " + s.keyArg(string(only)))
	}
	if !policy.AllProjects(a) && (only == "" || !slices.Contains(store.VisibleProjects(a), string(only))) {
		s.addCondition(s.oneOfSQL(column, store.VisibleProjects(a)))
	}
}

func lowerMatches(any []fleet.FilterMatch) []fleet.FilterMatch {
	out := make([]fleet.FilterMatch, len(any))
	for i, m := range any {
		out[i] = fleet.FilterMatch{Label: m.Label, Pattern: m.Lower()}
	}
	return out
}
