"""The properties in which JMS clients of IBM MQ see the fields of its message descriptor and headers."""

from typing import Final

from mypy_extensions import i64

PUT_BY_QUEUE_MANAGER: Final = 7
"""MQAT_QMGR: what kind of application has put the message."""

MSG_TYPE: Final = "JMS_IBM_MsgType"
FEEDBACK: Final = "JMS_IBM_Feedback"
FORMAT: Final = "JMS_IBM_Format"
ENCODING: Final = "JMS_IBM_Encoding"
CHARACTER_SET: Final = "JMS_IBM_Character_Set"
PUT_APPL_TYPE: Final = "JMS_IBM_PutApplType"
PUT_APPL_NAME: Final = "JMSXAppID"
PUT_DATE: Final = "JMS_IBM_PutDate"
PUT_TIME: Final = "JMS_IBM_PutTime"


def put_date_and_time(time_us: i64) -> tuple[str, str]:
    """As MQ writes them: YYYYMMDD, and HHMMSSTH with hundredths of a second; UTC."""
    seconds, rest_us = divmod(time_us, 1_000_000)
    days, second = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    clock = f"{second // 3600:02}{second // 60 % 60:02}{second % 60:02}{rest_us // 10_000:02}"
    return f"{year:04}{month:02}{day:02}", clock


def _civil(days: i64) -> tuple[int, int, int]:
    """Year, month and day of the day so many days after 1970-01-01, by the Gregorian calendar.

    Counted in eras of 400 years that begin with March, so that the leap day is a year's last.
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return int(year_of_era + era * 400 + (1 if month <= 2 else 0)), int(month), int(day)
