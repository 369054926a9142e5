# Scores what h2spec printed: passed and tried by section, then one line for each failure, and the
# total. Ends with status 1 when fewer than `required` passed; with -1 when any failed.
#
# h2spec writes a test's title, a carriage return and then the title again with its mark, and after
# all tests repeats the failures under their headings. (Its JUnit file can be malformed; this is not.)

function trimmed(text) { gsub(/^ +| +$/, "", text); return text }

{ gsub(/\033\[[0-9;]*m/, ""); sub(/^.*\r/, "") }

/^Failures:/ { is_repeating = 1 }
/^Finished in / { is_repeating = 0 }
/^[0-9]+ tests?, / { tests = $1; passed = $3; skipped = $5; failed = $7; next }

/^Generic/ { part = "generic" }
/^Hypertext/ { part = "HTTP/2" }
/^HPACK/ { part = "HPACK" }
/^ +[0-9]+(\.[0-9]+)*\. / && !/✔|×/ {
    number = $1
    sub(/\.$/, "", number)
    if (/^  [0-9]/) section = part " " trimmed($0)
}

is_repeating && /×/ { failures[++failure_count] = part " " number " " trimmed($0); next }
is_repeating && /Actual: / { failures[failure_count] = failures[failure_count] "\n      " trimmed($0); next }
is_repeating { next }

/✔|×/ {
    if (!(section in tried)) order[++section_count] = section
    tried[section]++
    if (/✔/) good[section]++
}

END {
    for (i = 1; i <= section_count; i++)
        printf "%-58s %3d of %d\n", order[i], good[order[i]], tried[order[i]]
    if (failure_count) print "\nnot passed:"
    for (i = 1; i <= failure_count; i++) print "  " failures[i]
    if (tests == "") { print "h2spec reported no result"; exit 1 }
    enough = required < 0 ? failed == 0 && passed > 0 : passed >= required
    printf "\n%s: %s, %d of %d passed, %d failed, %d skipped\n", enough ? "reached" : "BELOW TARGET", \
        way, passed, tests, failed, skipped
    exit !enough
}
