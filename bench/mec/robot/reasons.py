"""Why tests fail that fail, and what passed of each standard."""

# By class: folders, and the ends of the names of tests.
CLASSES = {
    "data that the suite does not have: bodies and schemas that are absent, empty, no UTF-8, or a word": {
        "MEC010p2/MEO/GRANT": "001_OK 002_OK 004_OK",
        "MEC010p2/MEO/PKGM": "001_OK 002_OK 003_OK 007_OK 008_OK 009_OK 011_OK",
        "MEC010p2/MEPM/PKGM": "001_OK 002_OK 005_OK 006_OK 007_OK 009_OK",
        "MEC014/SRV/UETAG": "001_OK",
        "MEC021/SRV/AMS": "001_OK 002_OK 003_OK 003_BR 004_OK 005_OK 005_BR 006_OK 007_OK 007_BR 007_NF 009_OK"
        " 010_OK 011_OK 012_OK 013_OK",
        "MEC028/WAI/AP_INFO": "001_OK", "MEC028/WAI/STA_INFO": "003_OK 004_OK",
        "MEC029/SRV/FAIS": "001_OK 002_OK 003_OK 004_OK 005_OK 006_OK 007_OK",
        "MEC030/SRV/V2X": "003_OK_01 003_OK_02 006_OK_01 006_OK_02 006_OK_03 006_OK_04",
        "MEX/LCM": "Resource|all APP Instances|individual APP instance|Instantiate an APP instance"
        "|Terminate an APP instance|of an APP instance|Occurrencies|Occurrency|Management Subscription"
        "|all LifeCycleManagement Subscriptions|specific LifeCycleManagement subscription|Package Notification",
    },
    "code that no server passes: an object is searched as a list, a GET removes, steps are missing": {
        "MEC010p2/MEO/PKGM": "001_OK 002_OK 003_OK 007_OK 008_OK 009_OK 011_OK",
        "MEC010p2/MEPM/PKGM": "001_OK 002_OK 005_OK 006_OK 007_OK 009_OK",
        "MEC012/SRV/RNIS": "012_OK 018_OK",
        "MEC013/SRV/UEDISTSUB": "001_OK", "MEC013/SRV/UETRACKSUB": "001_OK",
        "MEC015/SRV/MTS": "003_BR",
        "MEC021/SRV/AMS": "001_BR 008_OK 009_OK 010_OK 011_OK 013_OK",
        "MEC029/SRV/FAIS": "008_OK 008_BR 008_NF 008_PF 010_OK 011_OK",
        "MEX/ANY": "no token|invalid token",
        "MEX/LCM": "Resource|all APP Instances|individual APP instance|Occurrencies|Occurrency"
        "|Management Subscription|all LifeCycleManagement Subscriptions"
        "|specific LifeCycleManagement subscription|Package Notification",
    },
    "an app that runs, which only another suite makes": {
        "MEX/LCM": "Terminate an APP instance|of an APP instance",
    },
    "paths, members and answers of drafts and earlier versions": {
        "MEC010p2/MEO/PKGM": "005_OK 005_BR 005_NF",
        "MEC011/SRV/TRAF": "003_OK",
        "MEC014/SRV/UETAG": "001_OK 001_BR 001_NF 002_OK 002_BR 002_PF",
        "MEC015/SRV/MTS": "003_OK_01 003_OK_02",
        "MEC021/SRV/AMS": "002_OK 003_OK",
        "MEC028/WAI/AP_INFO": "001_OK 002_OK",
        "MEC028/WAI/EXT_SUB": "008_OK 009_OK", "MEC028/WAI/SUB": "005_OK 007_OK",
        "MEC029/SRV/FAIS": "006_OK 007_OK",
        "MEC030/SRV/V2X": "004_OK 004_NF 005_OK",
    },
    "otherwise in the standard: an empty list is 200, a problem is application/problem+json, 404 comes before 400, "
    "members that are not known are ignored": {
        "MEC010p2/MEO/GRANT": "002_OK 003_OK",
        "MEC013/SRV/UELOCSUB": "001_BR",
        "MEC015/SRV/MTS": "002_NF", "MEC015/SRV/TM": "002_NF 006_NF",
        "MEC028/WAI/AP_INFO": "002_BR", "MEC028/WAI/STA_INFO": "004_BR",
        "MEC029/SRV/FAIS": "001_NF 002_NF 003_NF 004_NF 005_NF",
    },
}
UNKNOWN = "not explained"


def reason(folder, name, is_repaired):
    """The first class a test is in; where data are repaired they are no reason."""
    for words, folders in list(CLASSES.items())[is_repaired:]:
        ends = folders.get(folder, "")
        if any(name.strip().endswith(end) for end in ends.split("|" if "|" in ends else " ") if end):
            return words
    return UNKNOWN


def report(every, is_repaired):
    """Prints what passed of each standard, and what did not, by class."""
    by = {}
    for folder, tests in every.items():
        by.setdefault(folder.split("/")[0], []).extend((folder, *test) for test in tests)
    classes = {}
    for standard, tests in by.items():
        failed = [test for test in tests if test[2] is not None]
        print(f"{standard}: {len(tests) - len(failed)} of {len(tests)}")
        for folder, name, why in failed:
            words = reason(folder, name, is_repaired)
            classes.setdefault(words, []).append(f"{folder} {name}: {' '.join(why.split())[:120]}")
    for words, failed in classes.items():
        print(f"{len(failed)} {words}", *(f"    {one}" for one in failed), sep="\n")
    every = [test for tests in by.values() for test in tests]
    print(f"all: {sum(why is None for *_, why in every)} of {len(every)}")
