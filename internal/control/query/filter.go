package query

import (
	"context"
	"math"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// filterScope is what the conditions of one list's filter are built with.
type filterScope struct {
	context.Context
	*Queries
	*statementBuilder
	actor fleet.Actor
}

// filterCondition adds the SQL condition of one filter term to the statement.
type filterCondition func(f filterScope, t fleet.FilterTerm) error

// listFilter are the conditions of one list, by filter key. A term without a condition here is applied to the rows that
// SQL returns.
type listFilter map[string]filterCondition

// applyFilter adds the conditions of all terms to s, and returns the terms without a condition.
func (b *Queries) applyFilter(ctx context.Context, s *statementBuilder, a fleet.Actor, all listFilter, terms []fleet.FilterTerm) (rest []fleet.FilterTerm, err error) {
	f := filterScope{ctx, b, s, a}
	for _, t := range terms {
		condition, ok := all[t.Key]
		if !ok {
			rest = append(rest, t)
			continue
		}
		if err := condition(f, t); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// conditionOf returns the condition whose SQL comes from sql.
func conditionOf(sql func(f filterScope, t fleet.FilterTerm) string) filterCondition {
	return func(f filterScope, t fleet.FilterTerm) error {
		f.addConditionOrNegation(t.Not, sql(f, t))
		return nil
	}
}

// exactText matches texts of the same case.
func exactText(column string) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string { return f.matchText(column, t.Alternatives) })
}

// lowerText matches texts in any case; column is in lower case.
func lowerText(column string) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string {
		return f.matchText(column, lowerMatches(t.Alternatives))
	})
}

// partOfText finds texts that contain one of the alternatives, in any case.
func partOfText(column string) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string {
		return f.matchText("lower("+column+")", anywhere(t.Alternatives))
	})
}

// anywhere returns the alternatives in lower case; those without asterisks match anywhere in a text.
func anywhere(any []fleet.FilterMatch) []fleet.FilterMatch {
	out := lowerMatches(any)
	for i, m := range out {
		if text, ok := m.ExactText(); ok {
			out[i].Pattern = fleet.Pattern{"", text, ""}
		}
	}
	return out
}

// relatedText finds rows with a related row whose column, in lower case, matches. related is the subquery up to the
// condition on the column.
func relatedText(related, column string) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string {
		return "EXISTS (" + related + f.matchText(column, lowerMatches(t.Alternatives)) + ")"
	})
}

// yesOrNo is the filter by a condition whose values are yes and no.
func yesOrNo(condition string) filterCondition {
	return func(f filterScope, t fleet.FilterTerm) error {
		f.whereYesOrNo(t, func() string { return condition }, func() string { return "NOT COALESCE((" + condition + "), false)" })
		return nil
	}
}

// assignedHost finds rows with an assignment to a host of the name; column is the assignment's column of the row's ID.
// It matches nothing for actors who cannot see hosts, so that they cannot learn which pools and networks are where.
func assignedHost(column, id string) filterCondition {
	return func(f filterScope, t fleet.FilterTerm) error {
		ids, err := []string{}, error(nil)
		if policy.May(f.actor, policy.InfraSee, "") {
			ids, err = f.idsByName(f, "hosts", t.Alternatives)
		}
		f.addConditionOrNegation(t.Not, "EXISTS (SELECT 1 FROM assignments x WHERE x."+column+" = "+id+" AND "+f.oneOfSQL("x.host_id", ids)+")")
		return err
	}
}

// rowByName finds rows whose column refers to a row of the table with the name. The names are resolved to IDs first:
// with literal IDs PostgreSQL estimates the number of rows and chooses its plan well.
func rowByName(column, table string) filterCondition {
	return func(f filterScope, t fleet.FilterTerm) error {
		ids, err := f.idsByName(f, table, t.Alternatives)
		f.addConditionOrNegation(t.Not, f.oneOfSQL(column, ids))
		return err
	}
}

// number compares an integer column. unit is the number of the key's units in one unit of the column.
func number(column string, unit float64) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string { return f.compareSQL(column, unit, t.Comparisons) })
}

// mebibyte is the number of bytes in one MiB, the unit of memory columns.
const mebibyte = 1 << 20

// day compares the day in UTC of a column with times.
func day(column string) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string {
		parts := make([]string, len(t.Comparisons))
		for i, c := range t.Comparisons {
			start := time.Unix(int64(c.Number), 0).UTC()
			end := start.AddDate(0, 0, 1)
			switch c.Operator {
			case "<":
				parts[i] = column + " < " + f.addArg(start)
			case "<=":
				parts[i] = column + " < " + f.addArg(end)
			case ">":
				parts[i] = column + " >= " + f.addArg(end)
			case ">=":
				parts[i] = column + " >= " + f.addArg(start)
			default:
				parts[i] = "(" + column + " >= " + f.addArg(start) + " AND " + column + " < " + f.addArg(end) + ")"
			}
		}
		return "(" + strings.Join(parts, " OR ") + ")"
	})
}

// labels matches a jsonb column of labels.
func labels(column string) filterCondition {
	return conditionOf(func(f filterScope, t fleet.FilterTerm) string { return f.matchLabels(column, t.Alternatives) })
}

// compareSQL is the condition that one of the comparisons holds for an integer column. The numbers are rounded to
// integers with the same meaning, because PostgreSQL uses no index of an integer column for fractions.
func (s *statementBuilder) compareSQL(column string, unit float64, all []fleet.Comparison) string {
	parts := make([]string, len(all))
	for i, c := range all {
		value := c.Number / unit
		switch c.Operator {
		case ">", "<=":
			value = math.Floor(value)
		case ">=", "<":
			value = math.Ceil(value)
		}
		if value != math.Trunc(value) {
			parts[i] = "false" // no integer equals a fraction
			continue
		}
		parts[i] = column + " " + c.Operator + " " + s.addArg(int64(min(max(value, math.MinInt64), math.MaxInt64/2))) + "::bigint"
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}
