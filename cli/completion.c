/* completion: what a shell offers after `attile`: verbs, then options of the verb, then words of an option. */
#include "manual.h"

#include <string.h>

static const char origin[] = "written by attile help --files from the tables that read the command line";

/* Returns the length of a group's name, 0 for verbs of one word: "cache stat" is in the group "cache". */
static size_t group_size(const struct verb *verb) {
    const char *space = strchr(verb->name, ' ');
    return space ? (size_t)(space - verb->name) : 0;
}

static bool same_group(const struct verb *a, const struct verb *b) {
    return group_size(a) > 0 && group_size(a) == group_size(b) && memcmp(a->name, b->name, group_size(a)) == 0;
}

static bool begins_group(const struct verb *verb) {
    return group_size(verb) > 0 && (verb == verbs || !same_group(verb - 1, verb));
}

static bool is_first_word(const struct verb *verb) { return group_size(verb) == 0 || begins_group(verb); }

static int first_size(const struct verb *verb) {
    return (int)(group_size(verb) ? group_size(verb) : strlen(verb->name));
}

/* Prints "auto|cuda|host" as "auto cuda host". */
static void print_choices(struct text *script, const char *value) {
    for (; *value; value++)
        text_print(script, "%c", *value == '|' ? ' ' : *value);
}

/* Prints words inside single quotes: `special` characters get a backslash, and a quote closes and reopens the
   quotes. */
static void print_quoted(struct text *script, const char *words, const char *special, const char *quote) {
    for (; *words; words++) {
        if (*words == '\'')
            text_print(script, "%s", quote);
        else
            text_print(script, "%s%c", strchr(special, *words) ? "\\" : "", *words);
    }
}

/* --- bash --------------------------------------------------------------------------------------------------------- */

static void bash_words(struct text *script, const struct verb *group) {
    text_print(script, "        words=\"");
    for (const struct verb *verb = verbs; verb->name; verb++)
        if (group && same_group(verb, group))
            text_print(script, "%s ", verb->name + group_size(verb) + 1);
        else if (!group && is_first_word(verb))
            text_print(script, "%.*s ", first_size(verb), verb->name);
    text_print(script, "\"\n");
}

void completion_bash(struct text *script) {
    text_print(script, "# attile for bash, %s\n_attile() {\n", origin);
    text_print(script,
               "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} "
               "words=\n    local at=$COMP_CWORD\n");
    text_print(script, "    if [ \"$at\" = 1 ]; then\n");
    bash_words(script, NULL);
    text_print(script, "    fi\n");
    for (const struct verb *group = verbs; group->name; group++) {
        if (!begins_group(group))
            continue;
        text_print(script, "    if [ \"$verb\" = %.*s ] && [ \"$at\" = 2 ]; then\n", first_size(group), group->name);
        bash_words(script, group);
        text_print(script, "    elif [ \"$verb\" = %.*s ]; then\n        verb=\"$verb ${COMP_WORDS[2]}\"\n    fi\n",
                   first_size(group), group->name);
    }
    text_print(script, "    case \"$verb $last\" in\n");
    for (const struct verb *verb = verbs; verb->name; verb++)
        for (const struct option *option = verb->options; option->name; option++) {
            if (option->kind != OPTION_WORD)
                continue;
            text_print(script, "    \"%s --%s\"", verb->name, option->name);
            text_print(script, option->letter ? " | \"%s -%c\") words=\"" : ") words=\"", verb->name, option->letter);
            print_choices(script, option->value);
            text_print(script, "\" ;;\n");
        }
    text_print(script, "    esac\n    if [ -z \"$words\" ]; then\n        case \"$verb $word\" in\n");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        text_print(script, "        \"%s -\"*) words=\"", verb->name);
        for (const struct option *option = verb->options; option->name; option++)
            text_print(script, "--%s ", option->name);
        text_print(script, "\" ;;\n");
    }
    text_print(script, "        esac\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
                       "complete -o default -F _attile attile\n");
}

/* --- zsh ---------------------------------------------------------------------------------------------------------- */

static void zsh_verbs(struct text *script, const struct verb *group) {
    text_print(script, "verbs=(");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        if (group ? !same_group(verb, group) : !is_first_word(verb))
            continue;
        text_print(script, " '%.*s:", group ? (int)strlen(verb->name) : first_size(verb),
                   group ? verb->name + group_size(verb) + 1 : verb->name);
        print_quoted(script, verb->about, ":\\", "'\\''");
        text_print(script, "'");
    }
    text_print(script, ")");
}

static void zsh_option(struct text *script, const struct option *option, bool letter) {
    text_print(script, " \\\n            '-%s%.*s%s[", letter ? "" : "-", letter ? 1 : (int)strlen(option->name),
               letter ? &option->letter : option->name,
               !option->value ? ""
               : letter       ? "+"
                              : "=");
    print_quoted(script, option->about, "[]:\\", "'\\''");
    text_print(script, "]");
    if (option->value) {
        text_print(script, ":%s:", option->value);
        text_print(script, option->kind == OPTION_WORD ? "(" : option->kind == OPTION_TEXT ? "_files" : " ");
        print_choices(script, option->kind == OPTION_WORD ? option->value : "");
        text_print(script, option->kind == OPTION_WORD ? ")" : "");
    }
    text_print(script, "'");
}

void completion_zsh(struct text *script) {
    text_print(script,
               "#compdef attile\n# attile for zsh, %s\n_attile() {\n    local -a verbs\n    local verb=$words[2]\n",
               origin);
    text_print(script, "    if (( CURRENT == 2 )); then\n        ");
    zsh_verbs(script, NULL);
    text_print(script, "\n        _describe verb verbs\n        return\n    fi\n");
    for (const struct verb *group = verbs; group->name; group++) {
        if (!begins_group(group))
            continue;
        text_print(script, "    if [[ $verb = %.*s ]]; then\n        if (( CURRENT == 3 )); then\n            ",
                   first_size(group), group->name);
        zsh_verbs(script, group);
        text_print(script, "\n            _describe verb verbs\n            return\n        fi\n"
                           "        verb=\"$verb $words[3]\"\n    fi\n");
    }
    text_print(script, "    case $verb in\n");
    for (const struct verb *verb = verbs; verb->name; verb++) {
        text_print(script, "    ('%s')\n        _arguments", verb->name);
        for (const struct option *option = verb->options; option->name; option++) {
            zsh_option(script, option, false);
            if (option->letter)
                zsh_option(script, option, true);
        }
        text_print(script, " \\\n            '*:file:_files' ;;\n");
    }
    text_print(script, "    esac\n}\n_attile \"$@\"\n");
}

/* --- fish --------------------------------------------------------------------------------------------------------- */

void completion_fish(struct text *script) {
    text_print(script,
               "# attile for fish, %s\n"
               "function __attile_words\n    test (count (commandline -opc)) = $argv[1]\nend\n"
               "function __attile_verb\n    set -l words (commandline -opc)\n"
               "    set -l last (math 1 + (count $argv))\n"
               "    test \"$words[2..$last]\" = \"$argv\"\nend\n",
               origin);
    for (const struct verb *verb = verbs; verb->name; verb++) {
        if (is_first_word(verb)) {
            text_print(script, "complete -c attile -f -n '__attile_words 1' -a %.*s -d '", first_size(verb),
                       verb->name);
            print_quoted(script, verb->about, "\\", "\\'");
            text_print(script, "'\n");
        }
        if (group_size(verb) > 0) {
            text_print(script, "complete -c attile -f -n '__attile_words 2; and __attile_verb %.*s' -a %s -d '",
                       first_size(verb), verb->name, verb->name + group_size(verb) + 1);
            print_quoted(script, verb->about, "\\", "\\'");
            text_print(script, "'\n");
        }
        for (const struct option *option = verb->options; option->name; option++) {
            text_print(script, "complete -c attile -n '__attile_verb %s' -l %s", verb->name, option->name);
            if (option->letter)
                text_print(script, " -s %c", option->letter);
            if (option->value)
                text_print(script, option->kind == OPTION_TEXT ? " -r" : " -x");
            if (option->kind == OPTION_WORD) {
                text_print(script, " -a '");
                print_choices(script, option->value);
                text_print(script, "'");
            }
            text_print(script, " -d '");
            print_quoted(script, option->about, "\\", "\\'");
            text_print(script, "'\n");
        }
    }
}
